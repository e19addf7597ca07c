//! [`Policy`]: what follows a failed attempt of a command, for tasks that carry no policy.

use std::time::Duration;

use windlass::{Decision, Failure, Retry, RetryPolicy};

use super::WRONG_PROPS;

/// How often a command that takes its worker down with it is tried.
const MAX_ABANDONED: u32 = 20;

/// The longest wait when only a number of attempts is given.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What follows a failed attempt.
#[derive(Debug, Clone)]
pub(crate) enum Policy {
    /// A command that fails has failed. Only an attempt that was cut off (its worker died) is made
    /// again.
    Once,
    /// As the policy says.
    As(Retry),
}

impl RetryPolicy for Policy {
    fn decide(&self, failure: &Failure<'_>) -> Decision {
        let last = failure.errors.last().map_or("", |e| e.error.as_str());
        if last.starts_with(WRONG_PROPS) {
            return Decision::Fail;
        }
        match self {
            Self::As(retry) => retry.decide(failure),
            Self::Once if is_abandoned(last) && failure.attempts < MAX_ABANDONED => Decision::Run,
            Self::Once => Decision::Fail,
        }
    }

    fn keeps(&self) -> usize {
        match self {
            Self::Once => Retry::Never.keeps(),
            Self::As(retry) => retry.keeps(),
        }
    }
}

/// Reads a policy as it is typed: a number of attempts, `never`, or the JSON of one.
///
/// # Errors
///
/// What is wrong, and what would be right.
pub(crate) fn read(text: &str) -> Result<Retry, String> {
    let retry = match (text, text.parse::<u32>()) {
        ("never", _) => Retry::Never,
        (_, Ok(attempts)) => Retry::exponential(attempts, LONGEST_WAIT),
        _ => serde_json::from_str(text).map_err(|e| {
            format!(
                "'{text}' is not a number of attempts, 'never', or JSON such as \
                 {{\"policy\":\"exponential\",\"attempts\":5,\"cap\":\"10m\"}}: {e}"
            )
        })?,
    };
    match retry.check() {
        Ok(()) => Ok(retry),
        Err(e) => Err(e.to_string()),
    }
}

/// Whether the error is that of a claim that was lost with its node.
fn is_abandoned(error: &str) -> bool {
    error.starts_with("the claim was abandoned")
}

#[cfg(test)]
mod tests {
    use windlass::{Code, ErrorEntry, Fence, State, Wake};

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
    fn once_is_once_but_for_a_worker_that_died() {
        assert_eq!(decide(&Policy::Once, "exit code 1", 1), Decision::Fail);
        let now = "2030-01-02T03:04:05Z".parse().unwrap();
        let state = State::new(now).claimed(Fence(2), Some("a"), now);
        assert_eq!(state.code(), Code::Runnable);
        let error = &state.errors.last().unwrap().error;
        assert_eq!(decide(&Policy::Once, error, 1), Decision::Run);
        assert_eq!(decide(&Policy::Once, error, MAX_ABANDONED), Decision::Fail);
    }

    #[test]
    fn policies_as_they_are_typed() {
        assert_eq!(read("never"), Ok(Retry::Never));
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
        let policy = Policy::As(Retry::default());
        let error = format!("{WRONG_PROPS}props: no");
        assert_eq!(decide(&policy, &error, 1), Decision::Fail);
        assert!(matches!(
            decide(&policy, "exit code 1", 1),
            Decision::Sleep(Wake::After(_))
        ));
    }
}
