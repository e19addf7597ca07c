//! What belongs to a task, and nothing else: the ranges of keys that go with it.
//!
//! Names of keys hold no `/` where one of ours ends. What lies deeper belongs to a namespace inside
//! this one, which earlier versions let be made (`/a/tasks` inside `/a`). A range leaves it out.

use windlass_statemachine::TaskId;

use super::{
    json::parse,
    kv::KeyValue,
    namespace::{FOLDERS, end_of},
};

/// The ranges that hold all keys with a prefix but these others; `keys` are those that are there.
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

/// What follows the prefix in the key, if it is one name.
pub(crate) fn name_of<'a>(kv: &'a KeyValue, prefix: &str) -> Option<&'a str> {
    let name = std::str::from_utf8(kv.key()).ok()?.strip_prefix(prefix)?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

/// Whether this is no command of a task or a node: in a namespace `tasks/ID` or `nodes/NAME` inside
/// this one, `…/commands/X` says which task the command X was sent to. A command is an object.
pub(crate) fn is_pointer(kv: &KeyValue) -> bool {
    kv.value().first() == Some(&b'"') && parse::<TaskId>(kv).is_ok()
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
}
