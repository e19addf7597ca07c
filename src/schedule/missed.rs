//! [`Missed`]: what happens to times that passed while no node was running.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::span::Length;

/// Which of the times are made up for that came while no node was running.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missed {
    /// None of them.
    None,
    /// The last of them.
    #[default]
    Last,
    /// All of them.
    All,
}

/// Which missed times run, and for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MissedTimes {
    #[serde(default)]
    pub(crate) run: Missed,
    #[serde(default = "an_hour")]
    pub(crate) within: Length,
}

fn an_hour() -> Length {
    Duration::from_secs(3600).into()
}

impl Default for MissedTimes {
    fn default() -> Self {
        Self {
            run: Missed::default(),
            within: an_hour(),
        }
    }
}
