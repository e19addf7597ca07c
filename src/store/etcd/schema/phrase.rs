//! Changes as text, in the lines of history of a state or a block: `"claimed n1"`,
//! `"moved sleep runnable sleeping 7"`. Each write of a task contains its lines until they move to a block, so they
//! should be short.

use serde::{Deserialize, Deserializer, Serialize};
use windlass_statemachine::Fence;

use crate::store::ChangeKind;

/// A change as text, or as an object as in other histories.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Phrase {
    Text(String),
    Object(ChangeKind),
}

impl Phrase {
    pub(super) fn of(change: &ChangeKind) -> Self {
        match text_of(change) {
            Some(text) => Self::Text(text),
            None => Self::Object(change.clone()),
        }
    }

    /// Returns the change; `None` when a later version wrote the text.
    fn change(self) -> Option<ChangeKind> {
        match self {
            Self::Text(text) => read(&text),
            Self::Object(change) => Some(change),
        }
    }
}

/// Reads changes in either form.
pub(super) fn changes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ChangeKind>, D::Error> {
    let phrases = Vec::<Phrase>::deserialize(from)?.into_iter();
    let changes = phrases.map(|phrase| {
        phrase
            .change()
            .ok_or_else(|| serde::de::Error::custom("a line of history has an unknown text"))
    });
    changes.collect()
}

/// Returns a change as text; `None` for one that is written as an object.
fn text_of(change: &ChangeKind) -> Option<String> {
    Some(match change {
        // The fence of a claim is known only after its write.
        ChangeKind::Claimed {
            node,
            fence: Fence(0),
            abandoned: false,
        } => format!("claimed {node}"),
        ChangeKind::Claimed {
            node,
            fence: Fence(0),
            abandoned: true,
        } => format!("reclaimed {node}"),
        ChangeKind::Moved {
            message,
            from,
            to,
            fence,
            command,
        } => {
            let text = format!("moved {message} {from} {to} {fence}");
            match command {
                Some(command) => format!("{text} {command}"),
                None => text,
            }
        }
        ChangeKind::Checkpointed { fence } => format!("checkpointed {fence}"),
        ChangeKind::Dropped { fence } => format!("dropped {fence}"),
        ChangeKind::Lost { fence } => format!("lost {fence}"),
        ChangeKind::Retried => "retried".to_owned(),
        _ => return None,
    })
}

/// Reads a change; `None` when no change has this text.
fn read(text: &str) -> Option<ChangeKind> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let fence = |text: &str| text.parse().ok().map(Fence);
    Some(match word {
        "claimed" | "reclaimed" => ChangeKind::Claimed {
            node: rest.parse().ok()?,
            fence: Fence(0),
            abandoned: word == "reclaimed",
        },
        "moved" => {
            let mut words = rest.split(' ');
            ChangeKind::Moved {
                message: words.next()?.parse().ok()?,
                from: words.next()?.parse().ok()?,
                to: words.next()?.parse().ok()?,
                fence: fence(words.next()?)?,
                command: words.next().map(str::parse).transpose().ok()?,
            }
        }
        "checkpointed" => ChangeKind::Checkpointed {
            fence: fence(rest)?,
        },
        "dropped" => ChangeKind::Dropped {
            fence: fence(rest)?,
        },
        "lost" => ChangeKind::Lost {
            fence: fence(rest)?,
        },
        "retried" => ChangeKind::Retried,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use windlass_statemachine::{ActionKind, StateKind};

    use super::*;

    fn all() -> Vec<ChangeKind> {
        let mut all = vec![
            ChangeKind::Checkpointed { fence: Fence(7) },
            ChangeKind::Dropped { fence: Fence(7) },
            ChangeKind::Lost {
                fence: Fence(u64::MAX),
            },
            ChangeKind::Retried,
            ChangeKind::Quarantined,
        ];
        for fence in [0, 7] {
            for (node, abandoned) in [("n1", false), ("a node of two", true)] {
                all.push(ChangeKind::Claimed {
                    node: node.parse().unwrap_or_else(|e| panic!("{e}")),
                    fence: Fence(fence),
                    abandoned,
                });
            }
        }
        for message in ActionKind::ALL.into_iter().chain([ActionKind::Signal]) {
            for from in StateKind::ALL {
                for command in [None, Some(20_480)] {
                    all.push(ChangeKind::Moved {
                        message,
                        from,
                        to: StateKind::Paused,
                        fence: Fence(9),
                        command,
                    });
                }
            }
        }
        all
    }

    #[derive(Deserialize)]
    struct Read(#[serde(deserialize_with = "changes")] Vec<ChangeKind>);

    #[test]
    fn each_change_is_read_as_it_was_written_in_both_forms() {
        let all = all();
        let phrases: Vec<Phrase> = all.iter().map(Phrase::of).collect();
        for text in [
            serde_json::to_string(&phrases).unwrap_or_default(),
            serde_json::to_string(&all).unwrap_or_default(),
        ] {
            let read: Read = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
            assert_eq!(read.0, all, "{text}");
        }
    }

    #[test]
    fn the_text_names_what_a_reader_of_the_store_looks_for() {
        let moved = ChangeKind::Moved {
            message: ActionKind::Sleep,
            from: StateKind::Runnable,
            to: StateKind::Sleeping,
            fence: Fence(7),
            command: None,
        };
        let text = serde_json::to_string(&Phrase::of(&moved)).unwrap_or_default();
        assert_eq!(text, r#""moved sleep runnable sleeping 7""#);
    }

    #[test]
    fn a_text_of_a_later_version_is_an_error() {
        for text in [
            r#"["grew 7"]"#,
            r#"["moved sleep"]"#,
            r#"["lost"]"#,
            r#"["claimed "]"#,
        ] {
            assert!(serde_json::from_str::<Read>(text).is_err(), "{text}");
        }
    }
}
