//! [`Format`]: what every process has to know about a namespace before it reads or writes a task.

use serde::{Deserialize, Serialize};

use super::{fences::Marks, json::write};
use crate::store::Error;

/// The location of the props of live tasks, and the names of the lines of their histories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Layout {
    /// The layout that nodes of Metafora can read: props below the key of the task, and a new key
    /// for each line.
    #[default]
    Shared,
    /// The layout of a namespace that only windlass uses. Props are outside of the keys that nodes watch, so that
    /// a node gets the props of a task only with its claim. The value of the state contains the newest lines of
    /// the history ([`Recent`](super::Recent)), and the other lines reuse the keys of older ones. So etcd has no
    /// keys to delete, and its index does not grow with each transition until the next compaction.
    Compact,
}

impl Layout {
    /// Returns whether nodes and clients of Metafora find all keys that they read.
    pub(crate) fn is_shared(self) -> bool {
        self == Self::Shared
    }
}

/// `/NS/meta/fences`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Format {
    pub(crate) marks: Marks,
    pub(crate) layout: Layout,
}

/// The version of all keys and values that this program reads and writes.
const FORMAT: u64 = 1;

/// The error and the advice when nodes of Metafora work in a namespace with separate props.
pub(crate) const FOREIGN_NODES: &str = "nodes of Metafora run tasks of this namespace without their props, which are where they do not read";
pub(crate) const FOREIGN_ADVICE: &str = "stop these nodes, and copy the namespace to one that is made with \
                                         metafora-nodes=true in its URL";

/// The fields that a value of any version may have.
#[derive(Deserialize)]
struct Versioned {
    /// Absent before 0.1.
    format: Option<u64>,
}

/// The value of this version.
#[derive(Serialize, Deserialize)]
struct Stored {
    format: u64,
    layout: Layout,
    marks: Marks,
}

impl Format {
    pub(crate) fn write(&self) -> Result<String, Error> {
        let stored = Stored {
            format: FORMAT,
            layout: self.layout,
            marks: self.marks.clone(),
        };
        write("format", &stored)
    }

    /// Reads the value of the key. The error says what to do.
    pub(crate) fn read(value: &[u8]) -> Result<Self, String> {
        let unreadable = |e: serde_json::Error| e.to_string();
        match serde_json::from_slice::<Versioned>(value).map_err(unreadable)?.format {
            Some(FORMAT) => {
                let stored: Stored = serde_json::from_slice(value).map_err(unreadable)?;
                Ok(Self {
                    marks: stored.marks,
                    layout: stored.layout,
                })
            }
            Some(newer) => Err(format!(
                "a newer windlass wrote it (format {newer}; this program knows {FORMAT}); update this program, or \
                 choose another namespace"
            )),
            None => Err(
                "a development version of windlass wrote it before 0.1; let that version end its tasks, and choose \
                 another namespace"
                    .to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_are_read_as_they_were_written() {
        let mut marks = Marks::default();
        assert!(!marks.raise(10, windlass_statemachine::Fence(50)));
        for (layout, name) in [(Layout::Shared, "shared"), (Layout::Compact, "compact")] {
            let format = Format {
                marks: marks.clone(),
                layout,
            };
            let text = format.write().unwrap();
            let begin = format!(r#"{{"format":1,"layout":"{name}","marks":[["#);
            assert!(text.starts_with(&begin), "{text}");
            let back = Format::read(text.as_bytes()).unwrap();
            assert_eq!((&back.marks, back.layout), (&marks, layout), "{text}");
        }
    }

    #[test]
    fn another_format_is_refused_with_what_to_do() {
        let (newer, before) = (
            "newer windlass wrote it (format 2;",
            "before 0.1; let that version",
        );
        for (text, says) in [
            (r#"{"format":2,"anything":true}"#, newer),
            (r#"{"marks":[[10,1000]]}"#, before),
            ("{}", before),
            (
                r#"{"marks":"this namespace needs a newer version","bases":[],"layout":"compact"}"#,
                before,
            ),
            (
                r#"{"format":1,"layout":"elsewhere","marks":[]}"#,
                "unknown variant `elsewhere`",
            ),
            ("[", "EOF"),
        ] {
            let error = Format::read(text.as_bytes()).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
