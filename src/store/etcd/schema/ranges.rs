//! The ranges of keys that contain only keys of a task.
//!
//! The last part of a key contains no `/`. A deeper key belongs to a namespace inside this one
//! (`/a/tasks` inside `/a`), which Metafora allows. Such keys are left out of a range.

use windlass_statemachine::TaskId;

use super::{
    commands::Stored,
    history::Entry,
    json::parse,
    kv::KeyValue,
    namespace::{FOLDERS, end_of, is_history},
};

/// Keys that were found, and whether to delete each of them.
type Found = Vec<(Vec<u8>, bool)>;

/// Returns the ranges that cover all of these `keys` that are to be deleted, and no others.
pub(crate) fn ranges(prefix: &str, keys: &[(Vec<u8>, bool)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    if keys.iter().all(|(_, own)| *own) {
        return vec![(prefix.as_bytes().to_vec(), end_of(prefix))];
    }
    let runs = keys.chunk_by(|(_, one), (_, next)| one == next);
    let own = runs.filter_map(|run| match (run.first(), run.last()) {
        (Some((first, true)), Some((last, _))) => Some((first.clone(), [last, &[0][..]].concat())),
        _ => None,
    });
    own.collect()
}

pub(crate) fn is_folder(name: &str) -> bool {
    FOLDERS.contains(&name)
}

/// Returns the part of the key after the prefix, if it is a single name.
pub(crate) fn name_of<'a>(kv: &'a KeyValue, prefix: &str) -> Option<&'a str> {
    let name = std::str::from_utf8(kv.key()).ok()?.strip_prefix(prefix)?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

/// Returns whether this is a pointer of an inner namespace, not a command: in a namespace
/// `tasks/ID` or `nodes/NAME`, the value of `…/commands/X` is the task to which the command X was
/// sent. The value of a command is an object.
pub(crate) fn is_pointer(kv: &KeyValue) -> bool {
    kv.value().first() == Some(&b'"') && parse::<TaskId>(kv).is_ok()
}

/// Returns the names of the outcomes of a task, and which of the found keys are outcomes. In a
/// namespace `outcomes` inside this one, `outcomes/tasks/ID` is a task.
pub(crate) fn outcomes_of(found: &[KeyValue], prefix: &str, id: &TaskId) -> (Vec<String>, Found) {
    let (mut names, mut all) = (Vec::new(), Vec::new());
    for kv in found {
        let is_own =
            |name: &&str| !is_folder(id.as_str()) || Stored::read(Some(name), kv).became.is_some();
        let own = name_of(kv, prefix).filter(is_own);
        all.push((kv.key().to_vec(), own.is_some()));
        names.extend(own.map(str::to_owned));
    }
    (names, all)
}

/// Returns which of these keys are commands of a node.
pub(crate) fn node_commands_of(found: &[KeyValue], prefix: &str) -> Found {
    let own = |kv: &KeyValue| name_of(kv, prefix).is_some() && !is_pointer(kv);
    let found = found.iter();
    found.map(|kv| (kv.key().to_vec(), own(kv))).collect()
}

/// Returns which of these keys are entries of the history of a task. In a namespace `history`
/// inside this one, `history/tasks/ID` is a task.
pub(crate) fn history_of(found: &[KeyValue], prefix: &str) -> Found {
    let own = |kv: &KeyValue| name_of(kv, prefix).is_some_and(is_history) && Entry::is_readable(kv);
    let found = found.iter();
    found.map(|kv| (kv.key().to_vec(), own(kv))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_leaves_out_what_belongs_to_others() {
        let of = |keys: &[(&str, bool)]| -> Vec<(String, String)> {
            let keys: Vec<_> = keys
                .iter()
                .map(|(k, own)| (k.as_bytes().to_vec(), *own))
                .collect();
            let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
            let ranges = ranges("p/", &keys).into_iter();
            ranges.map(|(from, to)| (text(from), text(to))).collect()
        };
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(of(&[]), [pair("p/", "p0")]);
        assert_eq!(of(&[("p/a", true), ("p/b", true)]), [pair("p/", "p0")]);
        assert_eq!(of(&[("p/a/x", false)]), []);
        let keys = [
            ("p/a", true),
            ("p/a/x", false),
            ("p/b", true),
            ("p/c", true),
            ("p/c/x", false),
        ];
        assert_eq!(of(&keys), [pair("p/a", "p/a\0"), pair("p/b", "p/c\0")]);
    }

    fn found(pairs: &[(&str, &str)]) -> Vec<KeyValue> {
        let kvs = pairs.iter();
        kvs.map(|(key, value)| KeyValue::new(key, value, 1))
            .collect()
    }

    fn own(found: Found) -> Vec<bool> {
        found.into_iter().map(|(_, own)| own).collect()
    }

    #[test]
    fn outcomes_have_one_name_and_in_a_folder_an_outcome() {
        let kill = r#"{"message":"kill"}"#;
        let stored = Stored::read(Some("c"), &KeyValue::new("p/c", kill, 1));
        let reason = "no".to_owned();
        let ended = stored
            .write_outcome(windlass_statemachine::Outcome::Rejected { reason })
            .unwrap_or_else(|e| panic!("{e}"));
        let kvs = found(&[
            ("p/c", &ended),
            ("p/d", r#"{"a":1}"#),
            ("p/c/x", "1"),
            ("p/", "1"),
            ("q/c", "1"),
        ]);
        let id = |text: &str| text.parse().unwrap_or_else(|e| panic!("{e}"));
        let (names, all) = outcomes_of(&kvs, "p/", &id("t"));
        assert_eq!(names, ["c", "d"]);
        assert_eq!(own(all), [true, true, false, false, false]);
        let (names, all) = outcomes_of(&kvs, "p/", &id("tasks"));
        assert_eq!(names, ["c"]);
        assert_eq!(own(all), [true, false, false, false, false]);
    }

    #[test]
    fn commands_of_a_node_are_no_pointers_to_tasks() {
        let kvs = found(&[
            ("p/1", r#"{"freeze":{}}"#),
            ("p/2", r#""a-task""#),
            ("p/3", r#""not / a / name""#),
            ("p/4/x", r#"{"freeze":{}}"#),
        ]);
        let expected = [true, false, true, false];
        assert_eq!(own(node_commands_of(&kvs, "p/")), expected);
    }

    #[test]
    fn entries_of_a_history_have_a_version_and_can_be_read() {
        let entry = Entry::write(jiff::Timestamp::UNIX_EPOCH, (0, None), &[]);
        let entry = entry.unwrap_or_else(|e| panic!("{e}"));
        let kvs = found(&[
            ("p/000000000001", &entry),
            ("p/quarantined-000000000001", &entry),
            ("p/000000000002", "[]]"),
            ("p/tasks", &entry),
            ("p/000000000003/x", &entry),
            ("p/r01", &format!(r#"{{"lines":[{entry}]}}"#)),
            ("p/r02", r#"{"lines":[1]}"#),
        ]);
        let expected = [true, true, false, false, false, true, false];
        assert_eq!(own(history_of(&kvs, "p/")), expected);
    }
}
