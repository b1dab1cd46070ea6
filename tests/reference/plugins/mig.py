"""Cards that their driver cuts (scheduler-plugins 5.4, mode mig): which instance somebody gets."""


def geometries_of(config, kind):
    """Ways to cut a card of this type, [(group, [(memory, how many)])]: of the first entry that names its model."""
    for entry in config.get("nvidia", {}).get("knownMigGeometries", []):
        if any(model in kind for model in entry["models"]):
            return [
                (each["group"], [(one["memory"], one["count"]) for one in each["geometries"]])
                for each in entry["allowedGeometries"]
            ]
    return []


def instance(geometries, taken, memory):
    """(name, memory) of the smallest free instance with that much; a card in use stays cut as it is. None: there is none."""
    groups = {name.rpartition("-")[0] for name in taken}
    for group, profiles in geometries:
        if groups and group not in groups:
            continue
        sizes = [size for size, count in profiles for _ in range(count)]
        free = [i for i, size in enumerate(sizes) if size >= memory and f"{group}-{i}" not in taken]
        if free:
            best = min(free, key=lambda i: (sizes[i], i))
            return f"{group}-{best}", sizes[best]
    return None
