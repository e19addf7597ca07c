//! The names of namespaces: the folders of each, and which namespaces would share keys.

/// What follows `/NS/` in the keys of a namespace.
pub(crate) const FOLDERS: [&str; 10] = [
    "tasks", "state", "parked", "finished", "history", "outcomes", "commands", "nodes", "answers",
    "meta",
];

/// Returns the outer namespace whose keys a namespace would share, and its folder: `a` and `tasks`
/// for `a/tasks/x`. Ignores the namespace without a name.
pub(crate) fn outer_of(namespace: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    for (at, _) in namespace.match_indices('/') {
        if from > 0 && FOLDERS.contains(&&namespace[from..at]) {
            return Some((&namespace[..from - 1], &namespace[from..at]));
        }
        from = at + 1;
    }
    (from > 0 && FOLDERS.contains(&&namespace[from..]))
        .then(|| (&namespace[..from - 1], &namespace[from..]))
}

/// The prefix of the last part of the key of a quarantine: `quarantined-REVISION`.
pub(crate) const QUARANTINED: &str = "quarantined";

/// The prefix of keys of a history that later writes of the task reuse.
pub(crate) const RING: &str = "r";

/// Returns whether this is the last part of a key of a history: `VERSION`, `VERSION-MORE`, `rNN` or a
/// quarantine.
pub(crate) fn is_history(name: &str) -> bool {
    let is_digits = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
    version_of(name).is_some()
        || name.starts_with(QUARANTINED)
        || name.strip_prefix(RING).is_some_and(is_digits)
}

/// Returns the version in the last part of a key of a history.
pub(crate) fn version_of(name: &str) -> Option<u64> {
    let digits = name.split('-').next().unwrap_or_default();
    let is_version = digits.len() >= 12 && digits.bytes().all(|b| b.is_ascii_digit());
    is_version.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Returns whether a key, without `/NS/`, has the form of a key of a namespace.
fn is_known(parts: &[&str]) -> bool {
    match parts {
        [
            "tasks" | "state" | "parked" | "finished" | "commands" | "answers" | "meta",
            _,
        ] => true,
        ["tasks", _, "owner" | "props" | "commands"] => true,
        ["tasks" | "nodes", _, "commands", _] | ["nodes", _, "_metafora" | "speaker"] => true,
        ["history", _, version] => is_history(version),
        ["outcomes", _, _] | ["meta", "log", _, _] | ["meta", "value", ..] => true,
        _ => false,
    }
}

/// Returns the namespace inside this one to which a key belongs by its form: `tasks/x` for
/// `tasks/x/nodes/n/_metafora`. `text` is the key without `/NS/`.
pub(crate) fn nested(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split('/').collect();
    if is_known(&parts) || !FOLDERS.contains(parts.first()?) {
        return None;
    }
    let inner = parts.split_last()?.1;
    let at = inner
        .iter()
        .skip(1)
        .position(|part| FOLDERS.contains(part))?;
    Some(parts[..=at].join("/"))
}

/// Returns the end of the range of keys that begin with `prefix`.
pub(crate) fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_shares_no_keys_with_an_outer_one() {
        for (namespace, outer) in [
            ("a", None),
            ("tasks", None),
            ("a/b", None),
            ("tasks/a", None),
            ("a/mytasks", None),
            ("a/tasks", Some(("a", "tasks"))),
            ("a/b/nodes", Some(("a/b", "nodes"))),
            ("a/history/b/c", Some(("a", "history"))),
        ] {
            assert_eq!(outer_of(namespace), outer, "{namespace}");
        }
    }

    #[test]
    fn a_key_of_an_inner_namespace_is_recognized() {
        for (key, namespace) in [
            ("tasks/tasks/owner", None),
            ("tasks/x/commands/tasks", None),
            ("nodes/tasks/_metafora", None),
            ("nodes/tasks/speaker", None),
            ("history/tasks/000000000001-ended", None),
            ("history/tasks/r07", None),
            ("meta/log/tasks/000000000000.0.1", None),
            ("meta/fences", None),
            ("meta/value/server/tasks/token", None),
            ("b/tasks/x", None),
            ("somebody/else", None),
            ("tasks/x/else", None),
            ("tasks/tasks/x", Some("tasks")),
            ("tasks/x/nodes/n/_metafora", Some("tasks/x")),
            ("history/tasks/x", Some("history")),
            ("state/x/y/finished/z", Some("state/x/y")),
        ] {
            assert_eq!(nested(key).as_deref(), namespace, "{key}");
        }
    }

    #[test]
    fn a_range_ends_behind_its_slash() {
        assert_eq!(end_of("/n/tasks/a/"), b"/n/tasks/a0");
    }
}
