//! [`EarlierData`]: what the data of a task was before it was replaced.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Json, TaskState};

/// How many replacements of its data a state keeps.
pub const KEPT: usize = 8;
/// The most bytes of earlier data that are kept. Of longer data only the length is.
pub const KEPT_BYTES: usize = 128;

/// The data that a task had until a checkpoint, another write of its handler, or a reschedule replaced it.
///
/// A state keeps the last [`KEPT`] of them, oldest first, so that people see how the data has changed. Handlers do not
/// get them.
///
/// # Example
///
/// ```
/// use jiff::{SignedDuration, Timestamp};
/// use windlass_statemachine::{Json, TaskState};
///
/// let mut state = TaskState::new(Timestamp::UNIX_EPOCH);
/// for (second, page) in [(1, "1"), (2, "1"), (3, "2")] {
///     let now = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
///     state.replace_data(Some(Json::parse("data", page)?), now);
/// }
/// let earlier: Vec<_> = state.earlier_data.iter().collect();
/// assert_eq!(earlier.len(), 2); // The same data again is no replacement.
/// assert_eq!((earlier[0].bytes, &earlier[0].data), (0, &None)); // It had no data.
/// assert_eq!(earlier[1].data, Some(Json::parse("data", "1")?));
/// assert_eq!(earlier[1].until.as_second(), 3);
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EarlierData {
    /// When it was replaced, in microseconds.
    pub until: Timestamp,
    /// How many bytes it had; 0 for a task without data.
    pub bytes: u64,
    /// The data; `None` for a task without data, and when it had more than [`KEPT_BYTES`].
    pub data: Option<Json>,
}

impl EarlierData {
    /// Returns data that was replaced at this time.
    pub fn of(data: Option<&Json>, until: Timestamp) -> Self {
        let bytes = data.map_or(0, Json::len);
        Self {
            // Stores keep microseconds.
            until: Timestamp::from_microsecond(until.as_microsecond()).unwrap_or(until),
            bytes: bytes as u64,
            data: data.filter(|_| bytes <= KEPT_BYTES).cloned(),
        }
    }
}

impl TaskState {
    /// Replaces the data by this data of this version.
    pub(crate) fn set_data(&mut self, data: Json, version: u32, now: Timestamp) {
        self.replace_data(Some(data), now);
        self.data_version = version;
    }

    /// Replaces the data, and keeps what it was ([`earlier_data`](Self::earlier_data)). Data that is equal is no replacement.
    pub fn replace_data(&mut self, data: Option<Json>, now: Timestamp) {
        if self.data != data {
            let earlier = EarlierData::of(self.data.as_ref(), now);
            self.earlier_data.push(earlier);
        }
        self.data = data;
    }
}

/// The stored form: microseconds since 1970, bytes, and the data if there is any. It is short, because each write of the
/// task contains it.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "EarlierData"))]
pub(crate) struct Stored(
    i64,
    u64,
    #[serde(default, deserialize_with = "crate::json::present")] Option<Json>,
);

impl Serialize for EarlierData {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let at = self.until.as_microsecond();
        match &self.data {
            Some(data) => (at, self.bytes, data).serialize(to),
            None => (at, self.bytes).serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for EarlierData {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Stored(at, bytes, data) = Stored::deserialize(from)?;
        Ok(Self {
            until: Timestamp::from_microsecond(at).map_err(serde::de::Error::custom)?,
            bytes,
            data,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn json(text: &str) -> Json {
        Json::parse("data", text).unwrap()
    }

    #[test]
    fn the_last_replacements_are_kept_and_the_long_ones_by_their_length() {
        let mut state = TaskState::new(at(0));
        for n in 0..20 {
            state.replace_data(Some(json(&n.to_string())), at(n));
        }
        let kept: Vec<_> = state.earlier_data.iter().map(|e| e.until).collect();
        assert_eq!(kept, (12..20).map(at).collect::<Vec<_>>());
        assert_eq!(
            state.earlier_data[7],
            EarlierData::of(Some(&json("18")), at(19))
        );
        let long = json(&format!("\"{}\"", "x".repeat(KEPT_BYTES - 1)));
        state.replace_data(Some(long), at(20));
        state.replace_data(None, at(21));
        assert_eq!(state.data, None);
        let last = &state.earlier_data[7];
        assert_eq!((last.bytes, &last.data), (KEPT_BYTES as u64 + 1, &None));
        assert_eq!(state.earlier_data.len(), KEPT);
    }

    #[test]
    fn the_same_data_and_none_in_place_of_none_are_no_replacements() {
        let mut state = TaskState::new(at(0));
        state.replace_data(None, at(1));
        state.replace_data(Some(json("1")), at(2));
        state.replace_data(Some(json("1")), at(3));
        assert_eq!(state.earlier_data.len(), 1);
    }

    #[test]
    fn the_stored_form_comes_out_as_it_went_in() {
        for data in [None, Some(json("{\"a\":1}")), Some(json("null"))] {
            let earlier = EarlierData::of(data.as_ref(), at(7));
            let text = serde_json::to_string(&earlier).unwrap();
            assert_eq!(
                serde_json::from_str::<EarlierData>(&text).unwrap(),
                earlier,
                "{text}"
            );
        }
        let text = serde_json::to_string(&EarlierData::of(Some(&json("[1]")), at(7))).unwrap();
        assert_eq!(text, "[7000000,3,[1]]");
        for wrong in ["[1]", "[\"a\",1]", "[9223372036854775807,1]", "{}"] {
            assert!(
                serde_json::from_str::<EarlierData>(wrong).is_err(),
                "{wrong}"
            );
        }
    }
}
