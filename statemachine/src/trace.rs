//! [`Trace`]: the place in a distributed trace that a task comes from.

use crate::{
    Invalid, Message,
    meta::{MAX_META, MAX_META_BYTES, Meta},
    text::is_unprintable,
};

/// The entry of a task's `meta` with the place in a trace.
pub const PARENT: &str = "traceparent";
/// The entry with what the systems of the trace keep for themselves.
pub const STATE: &str = "tracestate";

/// The most bytes of a `tracestate`. A longer one is left out.
const MAX_STATE_BYTES: usize = 512;

/// A place in a distributed trace: the headers `traceparent` and `tracestate` of
/// [W3C Trace Context](https://www.w3.org/TR/trace-context/).
///
/// # Example
///
/// ```
/// use windlass_statemachine::{Meta, Trace};
///
/// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let trace = Trace::new(parent, None)?;
/// assert_eq!(trace.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert!(trace.is_sampled());
///
/// let mut meta = Meta::new();
/// trace.add_to(&mut meta);
/// assert_eq!(Trace::of(&meta), Some(trace));
/// assert!(Trace::new("00-0-0-0", None).is_err());
/// # Ok::<(), windlass_statemachine::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Version 0, 55 bytes.
    parent: String,
    state: Option<String>,
}

impl Trace {
    /// Reads the two headers. A `tracestate` that is empty, longer than 512 bytes or not printable is left out, as the
    /// standard has it.
    ///
    /// # Errors
    ///
    /// [`Invalid`] (field `traceparent`) for a text that is no `traceparent`.
    pub fn new(parent: &str, state: Option<&str>) -> Result<Self, Invalid> {
        let wrong = || {
            let reason = "is not a version, a trace id, a span id and flags in lower-case hexadecimal digits, such as \
                          00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
            Invalid::new(PARENT, reason)
        };
        let is_hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let parent = parent.trim();
        let parts: Vec<&str> = parent.split('-').collect();
        let [version, trace, span, flags, later @ ..] = parts.as_slice() else {
            return Err(wrong());
        };
        let lengths = [version, trace, span, flags].map(|part| part.len());
        let is_well_formed = lengths == [2, 32, 16, 2]
            && [version, trace, span, flags].into_iter().all(|part| is_hex(part))
            && *version != "ff"
            // Later versions may append fields.
            && (later.is_empty() || *version != "00")
            && [trace, span].into_iter().all(|id| id.bytes().any(|b| b != b'0'));
        if !is_well_formed {
            return Err(wrong());
        }
        let state = state.map(str::trim).filter(|state| {
            !state.is_empty()
                && state.len() <= MAX_STATE_BYTES
                && !state.chars().any(is_unprintable)
        });
        Ok(Self {
            parent: format!("00-{trace}-{span}-{flags}"),
            state: state.map(str::to_owned),
        })
    }

    /// Returns the place that the `meta` of a task names; `None` without one, or when its text is not a `traceparent`.
    pub fn of(meta: &Meta) -> Option<Self> {
        let state = meta.get(STATE).map(String::as_str);
        Self::new(meta.get(PARENT)?, state).ok()
    }

    /// Adds the place to the `meta` of a task, unless the task names one already, or has no room for it within
    /// [`MAX_META`] and [`MAX_META_BYTES`].
    pub fn add_to(&self, meta: &mut Meta) {
        if meta.contains_key(PARENT) {
            return;
        }
        let mut bytes: usize = meta
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        let state = self.state.as_ref().filter(|_| !meta.contains_key(STATE));
        for (name, value) in [(PARENT, Some(&self.parent)), (STATE, state)] {
            let Some(value) = value else { continue };
            bytes += name.len() + value.len();
            if meta.len() >= MAX_META || bytes > MAX_META_BYTES {
                return;
            }
            meta.insert(name.to_owned(), value.clone());
        }
    }

    /// Gives the tasks that a message submits the place, unless they have one.
    #[must_use]
    pub fn pass_on(&self, mut message: Message) -> Message {
        for submit in &mut message.body.effects.submit {
            self.add_to(&mut submit.task.meta);
        }
        message
    }

    /// Returns the header `traceparent`, in version 0.
    pub fn parent(&self) -> &str {
        &self.parent
    }

    /// Returns the header `tracestate`.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Returns the id of the trace: 32 hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        self.parent.get(3..35).unwrap_or_default()
    }

    /// Returns the id of the span: 16 hexadecimal digits.
    pub fn span_id(&self) -> &str {
        self.parent.get(36..52).unwrap_or_default()
    }

    /// Returns whether the trace is recorded.
    pub fn is_sampled(&self) -> bool {
        let flags = self.parent.get(53..55).unwrap_or_default();
        u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn only_a_traceparent_is_one() {
        for (text, is_one) in [
            (format!("00-{TRACE}-{SPAN}-01"), true),
            (format!(" 00-{TRACE}-{SPAN}-00 "), true),
            (
                format!("cc-{TRACE}-{SPAN}-01-what-a-later-version-adds"),
                true,
            ),
            (format!("00-{TRACE}-{SPAN}-01-more"), false),
            (format!("ff-{TRACE}-{SPAN}-01"), false),
            (format!("00-{}-{SPAN}-01", TRACE.to_uppercase()), false),
            (format!("00-{}-{SPAN}-01", "0".repeat(32)), false),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)), false),
            (format!("00-{TRACE}-{SPAN}-é"), false),
            (format!("00-{TRACE}{SPAN}-01"), false),
            (String::new(), false),
        ] {
            let read = Trace::new(&text, None);
            assert_eq!(read.is_ok(), is_one, "{text}");
            if let Ok(trace) = read {
                assert_eq!((trace.trace_id(), trace.span_id()), (TRACE, SPAN));
                assert_eq!(trace.parent().len(), 55);
            }
        }
    }

    #[test]
    fn a_tracestate_that_cannot_be_kept_is_left_out() {
        let parent = format!("00-{TRACE}-{SPAN}-01");
        let state = |text: &str| {
            let trace = Trace::new(&parent, Some(text)).unwrap();
            trace.state().map(str::to_owned)
        };
        assert_eq!(state(" a=1,b=2 "), Some("a=1,b=2".to_owned()));
        for left_out in ["", " ", "a=\u{7}", &"x".repeat(513)] {
            assert_eq!(state(left_out), None, "{left_out:?}");
        }
    }

    #[test]
    fn a_task_keeps_its_own_trace_and_its_bounds() {
        let trace = Trace::new(&format!("00-{TRACE}-{SPAN}-01"), Some("a=1")).unwrap();
        let mut own = Meta::from([(PARENT.to_owned(), "mine".to_owned())]);
        trace.add_to(&mut own);
        assert_eq!((own.len(), own[PARENT].as_str()), (1, "mine"));

        let name = |n: usize| (n.to_string(), String::new());
        for (entries, has) in [
            (14, (true, true)),
            (15, (true, false)),
            (16, (false, false)),
        ] {
            let mut meta: Meta = (0..entries).map(name).collect();
            trace.add_to(&mut meta);
            assert_eq!((meta.contains_key(PARENT), meta.contains_key(STATE)), has);
            assert!(crate::meta::check(&meta).is_ok());
        }
        let mut full = Meta::from([("a".to_owned(), "x".repeat(MAX_META_BYTES - 1))]);
        trace.add_to(&mut full);
        assert_eq!(full.len(), 1);
    }
}
