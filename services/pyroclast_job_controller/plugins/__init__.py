"""The job plugins that `spec.plugins` may name. Each plugin is one module with one class, which `registry` finds."""
