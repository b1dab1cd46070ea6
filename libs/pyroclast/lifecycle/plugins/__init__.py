"""The job plugins that `spec.plugins` may name. Each plugin is one pure module with one class, which `made` lists."""
