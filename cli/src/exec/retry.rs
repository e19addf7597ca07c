//! [`Policy`]: what follows a failed attempt of a command, for tasks that carry no policy.

use std::time::Duration;

use windlass::{Decision, Failure, Retry, RetryPolicy};

use super::WRONG_PROPS;

/// The longest wait when only a number of attempts is given.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What follows a failed attempt: as the policy says, but props that are wrong fail the task at once.
#[derive(Debug, Clone)]
pub(crate) struct Policy(pub(crate) Retry);

impl RetryPolicy for Policy {
    fn decide(&self, failure: &Failure<'_>) -> Decision {
        let last = failure.errors.last().map_or("", |e| e.error.as_str());
        if last.starts_with(WRONG_PROPS) {
            return Decision::Fail;
        }
        self.0.decide(failure)
    }

    fn keeps(&self) -> usize {
        self.0.keeps()
    }
}

/// Reads a policy as it is typed: a number of attempts, `never`, `abandoned`, or the JSON of one.
///
/// # Errors
///
/// What is wrong, and what would be right.
pub(crate) fn read(text: &str) -> Result<Retry, String> {
    let retry = match (text, text.parse::<u32>()) {
        ("never", _) => Retry::Never,
        ("abandoned", _) => Retry::Abandoned,
        (_, Ok(attempts)) => Retry::exponential(attempts, LONGEST_WAIT),
        _ => serde_json::from_str(text).map_err(|e| {
            format!(
                "'{text}' is not a number of attempts, 'never', 'abandoned', or JSON such as \
                 {{\"policy\":\"exponential\",\"attempts\":5,\"cap\":\"10m\"}}: {e}"
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
    use windlass::{ErrorEntry, Wake};

    use super::*;

    fn decide(policy: &Policy, error: &str, attempts: u32) -> Decision {
        let now = "2030-01-02T03:04:05Z".parse().unwrap();
        let errors = [ErrorEntry {
            timestamp: now,
            error: error.to_owned(),
        }];
        policy.decide(&Failure {
            errors: &errors,
            attempts,
            now,
            jitter: 0.5,
        })
    }

    #[test]
    fn policies_as_they_are_typed() {
        assert_eq!(read("never"), Ok(Retry::Never));
        assert_eq!(read("abandoned"), Ok(Retry::Abandoned));
        assert_eq!(read("3"), Ok(Retry::exponential(3, LONGEST_WAIT)));
        assert_eq!(read(r#"{"policy":"strikes"}"#), Ok(Retry::strikes()));
        for (text, says) in [
            ("0", "retry.attempts: 0"),
            ("often", "'often' is not a number of attempts"),
            (r#"{"policy":"x"}"#, "unknown variant"),
        ] {
            assert!(read(text).unwrap_err().contains(says), "{text}");
        }
    }

    #[test]
    fn wrong_props_are_not_tried_again() {
        let policy = Policy(Retry::default());
        let error = format!("{WRONG_PROPS}props: no");
        assert_eq!(decide(&policy, &error, 1), Decision::Fail);
        assert!(matches!(
            decide(&policy, "exit code 1", 1),
            Decision::Sleep(Wake::After(_))
        ));
    }
}
