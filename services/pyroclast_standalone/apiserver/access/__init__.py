"""Who asks, and what they may: tokens, certificates, authorization, audit."""
