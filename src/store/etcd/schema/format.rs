//! [`Format`]: what every process has to know of a namespace before it reads or writes a task.

use serde::{Deserialize, Serialize};

use super::fences::Marks;

/// Where a namespace keeps the props of live tasks, and how the lines of their histories are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Layout {
    /// As nodes of Metafora and earlier versions of windlass read it: props below the key of the task, and a new
    /// key for each line.
    #[default]
    Shared,
    /// Props are outside of the keys that nodes watch: no node gets those of a task before it claims it. A line takes
    /// the key of the one that is 64 writes older. So etcd has no keys to delete, and its index does not grow
    /// with each transition until the next compaction.
    Own,
    /// As [`Own`](Self::Own), with fewer keys: the value of the state has the newest lines of the history
    /// ([`Recent`](super::Recent)). A new namespace has this layout.
    Compact,
}

impl Layout {
    /// Returns whether nodes and clients of Metafora find all that they read.
    pub(crate) fn is_shared(self) -> bool {
        self == Self::Shared
    }

    /// How the value of `meta/fences` names it; `None` for the shared one.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::Shared => None,
            Self::Own => Some("own"),
            Self::Compact => Some("compact"),
        }
    }

    fn named(name: &str) -> Option<Self> {
        let mut all = [Self::Own, Self::Compact].into_iter();
        all.find(|layout| layout.name() == Some(name))
    }
}

/// `/NS/meta/fences`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub(crate) struct Format {
    pub(crate) marks: Marks,
    pub(crate) layout: Layout,
}

/// Takes the place of the marks in a layout of our own. Earlier versions read this key before anything else, expect
/// a list there, and end with an error that quotes this text.
const NOTICE: &str =
    "this namespace needs a newer version of windlass: its keys are laid out in another way";

/// What is wrong with nodes of Metafora where props are apart, and what to do.
pub(crate) const FOREIGN_NODES: &str = "nodes of Metafora run tasks of this namespace without their props, which are where they do not read";
pub(crate) const FOREIGN_ADVICE: &str = "stop these nodes, and copy the namespace to one that is made with \
                                         metafora-nodes=true in its URL (windlass copy)";

/// The value of the key.
#[derive(Clone, Serialize, Deserialize)]
struct Stored {
    #[serde(default)]
    marks: MarksOrNotice,
    /// The marks, where a notice has their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bases: Option<Marks>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    layout: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum MarksOrNotice {
    Marks(Marks),
    Notice(String),
}

impl Default for MarksOrNotice {
    fn default() -> Self {
        Self::Marks(Marks::default())
    }
}

impl From<Format> for Stored {
    fn from(format: Format) -> Self {
        match format.layout.name() {
            None => Self {
                marks: MarksOrNotice::Marks(format.marks),
                bases: None,
                layout: None,
            },
            Some(name) => Self {
                marks: MarksOrNotice::Notice(NOTICE.to_owned()),
                bases: Some(format.marks),
                layout: Some(name.to_owned()),
            },
        }
    }
}

impl TryFrom<Stored> for Format {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, String> {
        let known = stored.layout.as_deref().and_then(Layout::named);
        match (stored.marks, stored.layout, known) {
            (MarksOrNotice::Marks(marks), None, _) => Ok(Self {
                marks,
                layout: Layout::Shared,
            }),
            (MarksOrNotice::Notice(_), _, Some(layout)) => Ok(Self {
                marks: stored.bases.unwrap_or_default(),
                layout,
            }),
            (MarksOrNotice::Notice(notice), ..) => Err(notice),
            (_, Some(layout), _) => Err(format!(
                "a newer version of windlass wrote it (layout '{layout}'): update this one"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::etcd::schema::{KeyValue, json::parse};

    fn read(text: &str) -> Result<Format, String> {
        parse(&KeyValue::new("/n/meta/fences", text, 1))
    }

    #[test]
    fn both_forms_are_read_as_they_were_written() {
        let mut marks = Marks::default();
        assert!(!marks.raise(10, windlass_statemachine::Fence(50)));
        for layout in [Layout::Shared, Layout::Own, Layout::Compact] {
            let format = Format {
                marks: marks.clone(),
                layout,
            };
            let text = serde_json::to_string(&format).unwrap();
            let back = read(&text).unwrap();
            assert_eq!((&back.marks, back.layout), (&marks, layout), "{text}");
        }
    }

    /// The first form is that of earlier versions, with every mark that they wrote.
    #[test]
    fn the_form_of_earlier_versions_is_the_shared_layout() {
        for text in [r#"{"marks":[[10,1000],[20,5000]]}"#, "{}"] {
            assert_eq!(read(text).unwrap().layout, Layout::Shared, "{text}");
        }
        let beside = serde_json::to_string(&Format::default()).unwrap();
        assert_eq!(beside, r#"{"marks":[]}"#);
    }

    /// What an earlier version does with a layout that it does not know: it refuses, and says why.
    #[test]
    fn an_earlier_version_refuses_the_layout_of_our_own() {
        #[derive(Debug, Deserialize)]
        struct Earlier {
            #[serde(default)]
            #[expect(dead_code, reason = "only its form counts")]
            marks: Vec<(i64, u64)>,
        }
        for layout in [Layout::Own, Layout::Compact] {
            let format = Format {
                layout,
                ..Format::default()
            };
            let text = serde_json::to_string(&format).unwrap();
            let refused = serde_json::from_str::<Earlier>(&text).unwrap_err();
            assert!(refused.to_string().contains(NOTICE), "{refused}");
        }
    }

    #[test]
    fn a_form_of_a_newer_version_is_refused_with_what_to_do() {
        for (text, says) in [
            (r#"{"marks":"use 3.0","layout":"elsewhere"}"#, "use 3.0"),
            (r#"{"marks":[],"layout":"elsewhere"}"#, "update this one"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
