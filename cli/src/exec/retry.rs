//! Reading a retry policy from the command line.

use windlass::Retry;

use windlass::statemachine::plain;

/// Reads a policy as it is typed: a number of attempts, a name, or the JSON of one.
///
/// # Errors
///
/// What is wrong, and what would be right.
pub(crate) fn read(text: &str) -> Result<Retry, String> {
    let retry = match (text, text.parse::<u32>()) {
        ("never", _) => Retry::Never,
        ("strikes", _) => Retry::strikes(),
        ("exponential", _) => Retry::default(),
        ("abandoned", _) => Retry::Abandoned,
        // The default policy, with its own waits.
        (_, Ok(attempts)) => plain::object(&format!(
            r#"{{"policy":"exponential","attempts":{attempts}}}"#
        ))?,
        _ => plain::object(text).map_err(|e| {
            // Of what is no JSON object, its errors say nothing.
            let e = match text.trim_start().starts_with('{') {
                true => format!(": {e}"),
                false => String::new(),
            };
            format!(
                "'{text}' is not a number of attempts (1 or more), 'exponential', 'strikes', \
                 'never', 'abandoned', or JSON such as \
                 {{\"policy\":\"exponential\",\"attempts\":5,\"cap\":\"10m\"}}{e}"
            )
        })?,
    };
    match retry.check() {
        Ok(()) => Ok(retry),
        Err(e) => Err(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn policies_as_they_are_typed() {
        assert_eq!(read("never"), Ok(Retry::Never));
        assert_eq!(read("abandoned"), Ok(Retry::Abandoned));
        assert_eq!(read("strikes"), Ok(Retry::strikes()));
        assert_eq!(read("exponential"), Ok(Retry::default()));
        // The same waits as those of the default.
        let longest = Duration::from_secs(300);
        assert_eq!(read("3"), Ok(Retry::exponential(3, longest)));
        assert_eq!(read("8"), Ok(Retry::default()));
        assert_eq!(read(r#"{"policy":"strikes"}"#), Ok(Retry::strikes()));
        for (text, says) in [
            ("0", "retry.attempts: 0"),
            ("often", "'often' is not a number of attempts"),
            (
                r#"{"policy":"x"}"#,
                "'x' is none of strikes, exponential, never, abandoned",
            ),
            ("-1", "'-1' is not a number of attempts (1 or more)"),
            ("[]", "'[]' is not a number of attempts"),
        ] {
            assert!(read(text).unwrap_err().contains(says), "{text}");
        }
    }
}
