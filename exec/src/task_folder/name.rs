//! Ids as folder names.

use std::fmt::Write as _;

use windlass::TaskId;

/// The longest name that is made of an id, in bytes. File systems allow 255; the submit order and
/// the ending of a record are appended.
const LONGEST: usize = 200;

/// Returns the name of a task's folder, made of the id and the submit order.
pub(crate) fn task_folder(id: &TaskId, order: u64) -> String {
    format!("{}@{order}", encode(id.as_str()))
}

/// Returns an id as a folder name. An id may be longer than a name can be, and file systems that
/// ignore case must not confuse two tasks.
pub(crate) fn encode(id: &str) -> String {
    let mut name = String::with_capacity(id.len());
    for (at, byte) in id.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte as char),
            b'.' if at > 0 => name.push('.'),
            byte => {
                let _ = write!(name, "%{byte:02x}");
            }
        }
    }
    // Records have this ending.
    if name.len() > LONGEST || name.ends_with(".run") {
        let hash = crate::hash::hex(&[id.as_bytes()], 32);
        name.truncate(LONGEST - 40);
        name.push('=');
        name.push_str(&hash);
    }
    name
}

/// Returns the id that a name stands for; `None` when it was shortened.
pub(crate) fn decode(name: &str) -> Option<TaskId> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            b'=' => return None,
            byte => byte,
        });
    }
    TaskId::new(String::from_utf8(bytes).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_id_has_a_name_of_its_own() {
        let long = "ü".repeat(128);
        let longer = format!("{}a", "x".repeat(255));
        let ids = ["a", "A", "a.run", "a b", "...", "%41", "=", &long, &longer];
        let mut names = HashSet::new();
        for id in ids {
            let name = encode(id);
            assert!(name.len() <= LONGEST && !name.starts_with('.'), "{name}");
            assert!(!name.contains('/') && name.to_lowercase() == name, "{name}");
            assert!(names.insert(name.clone()), "{id}");
            if !name.contains('=') {
                assert_eq!(decode(&name).unwrap().as_str(), id);
            }
        }
    }
}
