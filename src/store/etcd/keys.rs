//! Where everything is: the keys of a namespace.
//!
//! An id never holds a `/`, and every range ends behind one, so `a` and `ab` never touch.

use windlass_statemachine::{CommandId, NodeName, TaskId};

/// What follows `/NS/` in the keys of a namespace.
pub(super) const FOLDERS: [&str; 10] = [
    "tasks", "state", "parked", "finished", "history", "outcomes", "commands", "nodes", "answers",
    "meta",
];

/// The outer namespace whose keys a namespace would share, and the folder of it, if there is one:
/// `a` and `tasks` for `a/tasks/x`. A namespace without a name is not looked for.
pub(super) fn outer_of(namespace: &str) -> Option<(&str, &str)> {
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

/// How the last part of the key of a quarantine begins. Earlier versions wrote it alone.
pub(super) const QUARANTINED: &str = "quarantined";

/// Whether this is the last part of a key of a history: `VERSION`, with more behind a `-` or not.
pub(super) fn is_version(name: &str) -> bool {
    version_of(name).is_some()
}

/// The version in the last part of a key of a history.
pub(super) fn version_of(name: &str) -> Option<u64> {
    let digits = name.split('-').next().unwrap_or_default();
    let is_version = digits.len() >= 12 && digits.bytes().all(|b| b.is_ascii_digit());
    is_version.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Whether a key of a namespace, without `/NS/`, has the form of one that we write.
fn is_known(parts: &[&str]) -> bool {
    match parts {
        [
            "tasks" | "state" | "parked" | "finished" | "commands" | "answers" | "meta",
            _,
        ] => true,
        ["tasks", _, "owner" | "props" | "commands"] => true,
        ["tasks" | "nodes", _, "commands", _] | ["nodes", _, "_metafora"] => true,
        ["history", _, version] => is_version(version) || version.starts_with(QUARANTINED),
        ["outcomes", _, _] => true,
        _ => false,
    }
}

/// The namespace inside this one that a key belongs to, by its form: `tasks/x` for
/// `tasks/x/nodes/n/_metafora`. `text` is the key without `/NS/`.
pub(super) fn nested(text: &str) -> Option<String> {
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

/// The keys of one namespace.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    /// `/NS/`.
    root: String,
}

/// Which key of a task an event is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// The envelope.
    Task,
    Owner,
    Props,
    /// The single slot of a Metafora commander.
    Slot,
    /// A command of our queue.
    Command(&'a str),
}

/// The end of the range of keys that begin with `prefix`.
pub(super) fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

impl Keys {
    pub(super) fn new(namespace: &str) -> Self {
        let root = format!("/{namespace}/");
        Self { root }
    }

    pub(super) fn root(&self) -> &str {
        &self.root
    }

    pub(super) fn tasks(&self) -> String {
        format!("{}tasks/", self.root)
    }

    pub(super) fn task(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}", self.root)
    }

    /// What belongs to a live task: owner, props, commands.
    pub(super) fn parts(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}/", self.root)
    }

    pub(super) fn owner(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}/owner", self.root)
    }

    pub(super) fn props(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}/props", self.root)
    }

    /// The single slot of a Metafora commander; with everything up to `commands0` it is the queue.
    pub(super) fn slot(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}/commands", self.root)
    }

    /// The commands that wait for a task, without the slot.
    pub(super) fn queue(&self, id: &TaskId) -> String {
        format!("{}tasks/{id}/commands/", self.root)
    }

    pub(super) fn queued(&self, id: &TaskId, command: &str) -> String {
        format!("{}tasks/{id}/commands/{command}", self.root)
    }

    pub(super) fn state(&self, id: &TaskId) -> String {
        format!("{}state/{id}", self.root)
    }

    pub(super) fn all_parked(&self) -> String {
        format!("{}parked/", self.root)
    }

    pub(super) fn parked(&self, id: &TaskId) -> String {
        format!("{}parked/{id}", self.root)
    }

    pub(super) fn all_states(&self) -> String {
        format!("{}state/", self.root)
    }

    pub(super) fn all_finished(&self) -> String {
        format!("{}finished/", self.root)
    }

    pub(super) fn finished(&self, id: &TaskId) -> String {
        format!("{}finished/{id}", self.root)
    }

    /// The history of a task.
    pub(super) fn histories(&self, id: &TaskId) -> String {
        format!("{}history/{id}/", self.root)
    }

    pub(super) fn history(&self, id: &TaskId, version: u64) -> String {
        format!("{}history/{id}/{version:012}", self.root)
    }

    /// The quarantine of a task whose state was written at this revision.
    pub(super) fn quarantine(&self, id: &TaskId, written: i64) -> String {
        format!("{}history/{id}/{QUARANTINED}-{written:012}", self.root)
    }

    /// The commands of a task that have an outcome.
    pub(super) fn outcomes(&self, id: &TaskId) -> String {
        format!("{}outcomes/{id}/", self.root)
    }

    pub(super) fn outcome(&self, id: &TaskId, command: &str) -> String {
        format!("{}outcomes/{id}/{command}", self.root)
    }

    /// Which task a command was sent to.
    pub(super) fn pointer(&self, command: &CommandId) -> String {
        format!("{}commands/{command}", self.root)
    }

    pub(super) fn nodes(&self) -> String {
        format!("{}nodes/", self.root)
    }

    pub(super) fn registration(&self, name: &NodeName) -> String {
        format!("{}nodes/{name}/_metafora", self.root)
    }

    pub(super) fn node_commands(&self, name: &NodeName) -> String {
        format!("{}nodes/{name}/commands/", self.root)
    }

    pub(super) fn answer(&self, order: u64) -> String {
        format!("{}answers/{order}", self.root)
    }

    /// Whether a key below the root is one of those that hold facts about the namespace itself.
    pub(super) fn is_meta(&self, key: &[u8]) -> bool {
        let all = [
            self.fences(),
            self.identity(),
            self.places(),
            self.horizon(),
            self.compaction(),
        ];
        all.iter().any(|known| known.as_bytes() == key)
    }

    /// What is added to revisions to make fences of them.
    pub(super) fn fences(&self) -> String {
        format!("{}meta/fences", self.root)
    }

    /// The identity of the namespace.
    pub(super) fn identity(&self) -> String {
        format!("{}meta/identity", self.root)
    }

    /// What is written only to have a revision of its own.
    pub(super) fn places(&self) -> String {
        format!("{}meta/places", self.root)
    }

    /// What `maintain` remembers.
    pub(super) fn horizon(&self) -> String {
        format!("{}meta/horizon", self.root)
    }

    /// Which revision it was at which time, for those who compact.
    pub(super) fn compaction(&self) -> String {
        format!("{}meta/compaction", self.root)
    }

    /// Takes the key of a task, or of a part of one, apart.
    pub(super) fn split<'a>(&self, key: &'a [u8]) -> Option<(&'a str, Part<'a>)> {
        let rest = self.strip(key, "tasks/")?;
        let Some((id, part)) = rest.split_once('/') else {
            return Some((rest, Part::Task));
        };
        let part = match part {
            "owner" => Part::Owner,
            "props" => Part::Props,
            "commands" => Part::Slot,
            // A name holds no `/`: what lies deeper is another namespace's.
            other => {
                let name = other.strip_prefix("commands/")?;
                Part::Command(Some(name).filter(|name| !name.contains('/'))?)
            }
        };
        Some((id, part))
    }

    /// What follows `folder` in a key of this namespace.
    pub(super) fn strip<'a>(&self, key: &'a [u8], folder: &str) -> Option<&'a str> {
        let key = std::str::from_utf8(key).ok()?;
        key.strip_prefix(self.root.as_str())?.strip_prefix(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_apart() {
        let keys = Keys::new("a/b");
        for (key, expected) in [
            ("/a/b/tasks/x", Some(("x", Part::Task))),
            ("/a/b/tasks/x/owner", Some(("x", Part::Owner))),
            ("/a/b/tasks/x/props", Some(("x", Part::Props))),
            ("/a/b/tasks/x/commands", Some(("x", Part::Slot))),
            ("/a/b/tasks/x/commands/c", Some(("x", Part::Command("c")))),
            ("/a/b/tasks/x/other", None),
            ("/a/b/tasks/x/commands/c/owner", None),
            ("/a/tasks/x", None),
        ] {
            assert_eq!(keys.split(key.as_bytes()), expected, "{key}");
        }
    }

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
    fn a_key_of_an_inner_namespace_is_told_from_ours() {
        for (key, namespace) in [
            ("tasks/tasks/owner", None),
            ("tasks/x/commands/tasks", None),
            ("nodes/tasks/_metafora", None),
            ("history/tasks/000000000001-ended", None),
            ("meta/fences", None),
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
