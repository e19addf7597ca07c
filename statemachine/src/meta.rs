//! [`Meta`]: text that travels with a task, for programs around it.

use std::collections::BTreeMap;

use crate::{
    Invalid,
    text::{is_blank, is_unprintable},
};

/// Names and values of text that a task carries, such as `traceparent`. windlass never interprets them: they do not
/// select nodes, and filters do not search them. Handlers and commands receive them unchanged.
///
/// A repeated submit or transaction may carry other values: they are not part of the work.
pub type Meta = BTreeMap<String, String>;

/// How many entries the `meta` of a task may have.
pub const MAX_META: usize = 16;
/// The most bytes that all names and values of a task's `meta` may have together.
pub const MAX_META_BYTES: usize = 4096;
/// The longest name, in bytes.
pub const MAX_META_NAME_BYTES: usize = 128;

/// Checks the `meta` of one task.
///
/// # Errors
///
/// [`Invalid`] (field `meta`) for more than [`MAX_META`] entries, for more than [`MAX_META_BYTES`] bytes, for an empty
/// or long name, for a name with `=`, and for characters that are not printed, such as control characters and
/// those that change the direction of text.
///
/// # Example
///
/// ```
/// use windlass_statemachine::meta::{Meta, check};
///
/// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// assert!(check(&Meta::from([("traceparent".into(), parent.into())])).is_ok());
/// assert!(check(&Meta::from([("a=b".into(), String::new())])).is_err());
/// ```
pub fn check(meta: &Meta) -> Result<(), Invalid> {
    let wrong = |reason: String| Err(Invalid::new("meta", reason));
    if meta.len() > MAX_META {
        return wrong(format!(
            "has {} entries; at most {MAX_META} are allowed",
            meta.len()
        ));
    }
    let bytes: usize = meta.iter().map(|(n, v)| n.len() + v.len()).sum();
    if bytes > MAX_META_BYTES {
        return wrong(format!(
            "has {bytes} bytes; at most {MAX_META_BYTES} are allowed: put larger values into props"
        ));
    }
    for (name, value) in meta {
        let has_control = |text: &str| text.chars().any(is_unprintable);
        if is_blank(name)
            || name.len() > MAX_META_NAME_BYTES
            || name.contains('=')
            || has_control(name)
        {
            return wrong(format!(
                "the name {name:?} is not 1 to {MAX_META_NAME_BYTES} bytes of printable text without '='"
            ));
        }
        if has_control(value) {
            return wrong(format!(
                "the value of {name:?} has characters that are not printed; give printable text"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(entries: &[(&str, &str)]) -> Option<String> {
        let meta = entries.iter().map(|(n, v)| (n.to_string(), v.to_string()));
        check(&meta.collect()).err().map(|e| e.to_string())
    }

    #[test]
    fn each_bound_is_named() {
        let long = "x".repeat(MAX_META_BYTES);
        let long_name = "n".repeat(MAX_META_NAME_BYTES + 1);
        for (entry, says) in [
            (("", "x"), "the name \"\""),
            (("a=b", "x"), "the name \"a=b\""),
            (("a\nb", "x"), "the name \"a\\nb\""),
            ((long_name.as_str(), "x"), "is not 1 to 128 bytes"),
            (
                ("a", "x\ny"),
                "the value of \"a\" has characters that are not printed",
            ),
            (
                ("a", "x\u{202e}y"),
                "the value of \"a\" has characters that are not printed",
            ),
            (("a", long.as_str()), "has 4097 bytes; at most 4096"),
        ] {
            let reason = refused(&[entry]).unwrap_or_default();
            assert!(reason.contains(says), "{entry:?}: {reason}");
        }
        assert_eq!(refused(&[("a", "x=y, z"), ("b", "")]), None);
    }

    #[test]
    fn a_task_has_16_entries_at_most() {
        let entries = |count: usize| (0..count).map(|n| (n.to_string(), String::new())).collect();
        assert_eq!(check(&entries(MAX_META)), Ok(()));
        assert!(check(&entries(MAX_META + 1)).is_err());
    }
}
