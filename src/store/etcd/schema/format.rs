//! [`Format`]: what every process has to know of a namespace before it reads or writes a task.

use serde::{Deserialize, Serialize};

use super::{fences::Marks, keys::Of};

/// Where a namespace keeps the props of live tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum PropsPlace {
    /// Below the key of the task, where nodes of Metafora and earlier versions of windlass read them.
    #[default]
    Beside,
    /// Outside of the keys that nodes watch: no node gets the props of a task before it claims it.
    Apart,
}

impl PropsPlace {
    /// Returns the key that has the props of a new task.
    pub(crate) fn key(self) -> Of {
        match self {
            Self::Beside => Of::Props,
            Self::Apart => Of::PropsApart,
        }
    }
}

/// `/NS/meta/fences`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub(crate) struct Format {
    pub(crate) marks: Marks,
    pub(crate) props: PropsPlace,
}

/// Takes the place of the marks where props are apart. Earlier versions read this key before anything else, expect
/// a list there, and end with an error that quotes this text.
const NOTICE: &str =
    "this namespace needs a newer version of windlass, which reads props below meta/props";

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
    props: Option<String>,
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
        match format.props {
            PropsPlace::Beside => Self {
                marks: MarksOrNotice::Marks(format.marks),
                bases: None,
                props: None,
            },
            PropsPlace::Apart => Self {
                marks: MarksOrNotice::Notice(NOTICE.to_owned()),
                bases: Some(format.marks),
                props: Some("apart".to_owned()),
            },
        }
    }
}

impl TryFrom<Stored> for Format {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, String> {
        match (stored.marks, stored.props.as_deref()) {
            (MarksOrNotice::Marks(marks), None) => Ok(Self {
                marks,
                props: PropsPlace::Beside,
            }),
            (MarksOrNotice::Notice(_), Some("apart")) => Ok(Self {
                marks: stored.bases.unwrap_or_default(),
                props: PropsPlace::Apart,
            }),
            (MarksOrNotice::Notice(notice), _) => Err(notice),
            (_, Some(props)) => Err(format!(
                "a newer version of windlass wrote it (props '{props}'): update this one"
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
        for props in [PropsPlace::Beside, PropsPlace::Apart] {
            let format = Format {
                marks: marks.clone(),
                props,
            };
            let text = serde_json::to_string(&format).unwrap();
            let back = read(&text).unwrap();
            assert_eq!((&back.marks, back.props), (&marks, props), "{text}");
        }
    }

    /// The first form is that of earlier versions, with every mark that they wrote.
    #[test]
    fn the_form_of_earlier_versions_keeps_props_beside() {
        for text in [r#"{"marks":[[10,1000],[20,5000]]}"#, "{}"] {
            assert_eq!(read(text).unwrap().props, PropsPlace::Beside, "{text}");
        }
        let beside = serde_json::to_string(&Format::default()).unwrap();
        assert_eq!(beside, r#"{"marks":[]}"#);
    }

    /// What an earlier version does with a namespace whose props are apart: it refuses, and says why.
    #[test]
    fn an_earlier_version_refuses_props_that_are_apart() {
        #[derive(Debug, Deserialize)]
        struct Earlier {
            #[serde(default)]
            #[expect(dead_code, reason = "only its form counts")]
            marks: Vec<(i64, u64)>,
        }
        let format = Format {
            props: PropsPlace::Apart,
            ..Format::default()
        };
        let text = serde_json::to_string(&format).unwrap();
        let refused = serde_json::from_str::<Earlier>(&text).unwrap_err();
        assert!(refused.to_string().contains(NOTICE), "{refused}");
    }

    #[test]
    fn a_form_of_a_newer_version_is_refused_with_what_to_do() {
        for (text, says) in [
            (r#"{"marks":"use 3.0","props":"elsewhere"}"#, "use 3.0"),
            (r#"{"marks":[],"props":"elsewhere"}"#, "update this one"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
