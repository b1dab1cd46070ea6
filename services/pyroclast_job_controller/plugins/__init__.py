"""Job plugins: what `spec.plugins` may name. A plugin is one module with one class; `registry` finds them."""
