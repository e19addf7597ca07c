//! [`Missed`]: how times that passed while no node was running are handled.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

use super::{span::Length, template::or_default};

/// Which of the times that passed while no node was running are made up for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Missed {
    /// None of the times.
    None,
    /// The last of the times.
    #[default]
    Last,
    /// All of the times.
    All,
}

/// Which missed times run, and for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct MissedTimes {
    /// Which missed times run; the last one by default.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) run: Missed,
    /// How long ago a time may be to be made up for; `1h` by default.
    #[serde(default = "an_hour", deserialize_with = "or_an_hour")]
    pub(crate) within: Length,
}

fn an_hour() -> Length {
    Duration::from_secs(3600).into()
}

fn or_an_hour<'de, D: Deserializer<'de>>(from: D) -> Result<Length, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_else(an_hour))
}

impl Default for MissedTimes {
    fn default() -> Self {
        Self {
            run: Missed::default(),
            within: an_hour(),
        }
    }
}
