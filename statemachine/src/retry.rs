//! [`RetryPolicy`]: what follows a failed attempt, and the policies that ship with windlass.

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, IgnoredAny},
};

use crate::{ErrorEntry, Invalid, Wake, errors::DEFAULT_KEPT};

/// The longest wait between two attempts: a week.
pub const MAX_WAIT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// A failed attempt, as a retry policy sees it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// The last errors, oldest first. The policy decides on the newest.
    pub errors: &'a [ErrorEntry],
    /// The number of attempts in a row that have failed or been abandoned, this one included: 1 or more.
    pub attempts: u32,
    /// When it failed.
    pub now: Timestamp,
    /// A random number from 0 (included) to 1 (excluded), for jitter.
    pub jitter: f64,
}

/// The decision of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Try again at once.
    Run,
    /// Try again after a while.
    Sleep(Wake),
    /// Give up: the task has failed.
    Fail,
}

/// Decides what follows a failed attempt.
///
/// # Duties of an implementation
///
/// - It keeps no state between two calls: after a crash, or on another node, it is asked again about the
///   same failure.
/// - It does not block: it runs on the runner's own thread.
/// - A policy that panics counts as the default policy.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use windlass_statemachine::{Decision, Failure, RetryPolicy, Wake};
///
/// /// Retries every minute, for as long as it takes.
/// #[derive(Debug)]
/// struct EveryMinute;
///
/// impl RetryPolicy for EveryMinute {
///     fn decide(&self, _: &Failure<'_>) -> Decision {
///         Decision::Sleep(Wake::After(Duration::from_secs(60)))
///     }
/// }
/// ```
///
/// A policy is not asked about an error that a retry cannot fix
/// ([`Message::fail`](crate::Message::fail)).
pub trait RetryPolicy: Send + Sync + Debug {
    /// Decides what follows this failure.
    fn decide(&self, failure: &Failure<'_>) -> Decision;

    /// Returns how many of the last errors the policy reads, which the task then keeps (at most 64).
    fn keeps(&self) -> usize {
        DEFAULT_KEPT
    }

    /// Returns how many more attempts the policy allows after this failure, for logs and clients only.
    /// `None`, the default, when the policy does not count attempts.
    fn left(&self, _failure: &Failure<'_>) -> Option<u32> {
        None
    }
}

/// The policies that ship with windlass. The policy of a task, if it has one, replaces that of its
/// kind.
///
/// # Example
///
/// ```
/// use windlass_statemachine::Retry;
///
/// let retry: Retry = serde_json::from_str(r#"{"policy":"exponential","attempts":5}"#)?;
/// assert_eq!(
///     serde_json::to_string(&retry)?,
///     r#"{"policy":"exponential","base":"1s","factor":2.0,"cap":"5m","attempts":5}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "policy", rename_all = "lowercase", deny_unknown_fields)]
pub enum Retry {
    /// Fails the task after a number of errors within a window. Before that, the task sleeps after
    /// each error.
    Strikes {
        /// The error that fails the task: 8 by default.
        #[serde(default = "default_strikes")]
        errors: u32,
        /// The window in which errors are counted: 4 h by default.
        #[serde(default = "default_window", with = "friendly")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        window: Duration,
        /// How long the task sleeps after each error: 10 min by default.
        #[serde(default = "default_sleep", with = "friendly")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        sleep: Duration,
    },
    /// Waits longer from attempt to attempt. Each wait is random, between zero and its bound (full
    /// jitter). This is the default policy.
    Exponential {
        /// The bound of the first wait: 1 s by default.
        #[serde(default = "default_base", with = "friendly")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        base: Duration,
        /// The factor by which the bound grows: 2 by default.
        #[serde(default = "default_factor")]
        factor: f64,
        /// The greatest bound: 5 min by default, at most a week.
        #[serde(default = "default_cap", with = "friendly")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        cap: Duration,
        /// The number of attempts, the first included: 8 by default.
        #[serde(default = "default_attempts")]
        attempts: u32,
    },
    /// Fails the task at the first error, and when an attempt was abandoned (its node was lost). A release is
    /// neither: after a graceful stop of its node, a pause or a balancer's release the task runs again. So this
    /// policy does not promise that the handler runs at most once.
    #[serde(deserialize_with = "no_fields")]
    Never,
    /// Fails the task at the first error of the handler. An abandoned attempt (its node was lost)
    /// is followed by another, up to 20 in a row.
    #[serde(deserialize_with = "no_fields")]
    Abandoned,
}

/// Reads a policy without fields: serde ignores those that it is given.
fn no_fields<'de, D: Deserializer<'de>>(from: D) -> Result<(), D::Error> {
    let fields = BTreeMap::<String, IgnoredAny>::deserialize(from)?;
    match fields.into_keys().next() {
        None => Ok(()),
        Some(name) => Err(D::Error::custom(format!(
            "'{name}' is not a field of this policy, which has no fields; leave it out, or choose 'exponential' or 'strikes'"
        ))),
    }
}

/// How many attempts in a row may be abandoned before [`Retry::Abandoned`] gives up: the task itself may
/// be the cause that its nodes die.
const MAX_ABANDONED: u32 = 20;

fn default_strikes() -> u32 {
    8
}
fn default_window() -> Duration {
    Duration::from_secs(4 * 60 * 60)
}
fn default_sleep() -> Duration {
    Duration::from_secs(10 * 60)
}
fn default_base() -> Duration {
    Duration::from_secs(1)
}
fn default_factor() -> f64 {
    2.0
}
fn default_cap() -> Duration {
    Duration::from_secs(5 * 60)
}
fn default_attempts() -> u32 {
    8
}

pub(crate) mod friendly {
    use std::time::Duration;

    use jiff::{
        SpanRelativeTo, fmt::friendly::SpanPrinter,
        fmt::serde::unsigned_duration::friendly::compact::required as compact,
    };
    use serde::{Deserialize, Deserializer, de::Error};

    pub(crate) use compact::serialize;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        parse(&text).ok_or_else(|| {
            D::Error::custom(format!(
                "'{text}' is not a length of time; write it like 10m or 1h 30m"
            ))
        })
    }

    /// Returns the text of a length of time.
    pub(crate) fn text(length: Duration) -> String {
        SpanPrinter::new().unsigned_duration_to_string(&length)
    }

    /// Reads a length of time. A day has 24 hours.
    pub(crate) fn parse(text: &str) -> Option<Duration> {
        let span = crate::time::span(text)?;
        let length = span.to_duration(SpanRelativeTo::days_are_24_hours());
        Duration::try_from(length.ok()?).ok()
    }
}

impl Default for Retry {
    /// Returns the default policy: 8 attempts, with waits of up to 1 s, 2 s, 4 s … and at most 5
    /// min, about a minute in all.
    fn default() -> Self {
        Self::exponential(default_attempts(), default_cap())
    }
}

/// The shortest `base` and `cap` of a policy that tries again.
const SHORTEST: Duration = Duration::from_millis(1);

impl Retry {
    /// Returns Metafora's policy: 8 errors within 4 h fail the task; before that it sleeps 10 min
    /// after each.
    pub fn strikes() -> Self {
        Self::Strikes {
            errors: default_strikes(),
            window: default_window(),
            sleep: default_sleep(),
        }
    }

    /// Returns a policy with `attempts` attempts and waits of up to 1 s, 2 s, 4 s … and at most
    /// `cap` between them.
    pub fn exponential(attempts: u32, cap: Duration) -> Self {
        Self::Exponential {
            base: default_base(),
            factor: default_factor(),
            cap,
            attempts,
        }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names the number and its range.
    pub fn check(&self) -> Result<(), Invalid> {
        let wrong = |field: &'static str, reason: String| Err(Invalid::new(field, reason));
        let week = |field: &'static str, value: &Duration| {
            if *value > MAX_WAIT {
                return wrong(
                    field,
                    format!("{value:?} is more than a week; give at most 7d"),
                );
            }
            Ok(())
        };
        match self {
            Self::Strikes {
                errors,
                window: _,
                sleep,
            } => {
                if !(1..=64).contains(errors) {
                    return wrong("retry.errors", format!("{errors} is not from 1 to 64"));
                }
                week("retry.sleep", sleep)
            }
            Self::Exponential {
                base,
                factor,
                cap,
                attempts,
            } => {
                if *attempts == 0 {
                    return wrong(
                        "retry.attempts",
                        "0 attempts never run; give 1 or more".into(),
                    );
                }
                if !(1.0..=1000.0).contains(factor) {
                    return wrong("retry.factor", format!("{factor} is not from 1 to 1000"));
                }
                week("retry.base", base)?;
                week("retry.cap", cap)?;
                for (field, wait) in [("retry.base", base), ("retry.cap", cap)] {
                    if *attempts > 1 && *wait < SHORTEST {
                        let reason = format!(
                            "{wait:?} leaves no wait between attempts, which fail as fast as they start; give at \
                             least {SHORTEST:?}"
                        );
                        return wrong(field, reason);
                    }
                }
                Ok(())
            }
            Self::Never | Self::Abandoned => Ok(()),
        }
    }
}

/// Counts the errors within the window that ends with this failure.
fn strikes_within(window: Duration, failure: &Failure<'_>) -> u32 {
    let window = SignedDuration::try_from(window).unwrap_or(SignedDuration::MAX);
    let recent = |e: &&ErrorEntry| failure.now.duration_since(e.timestamp) <= window;
    let recent = failure.errors.iter().filter(recent).count();
    u32::try_from(recent).unwrap_or(u32::MAX)
}

impl RetryPolicy for Retry {
    fn decide(&self, failure: &Failure<'_>) -> Decision {
        match self {
            Self::Strikes {
                errors,
                window,
                sleep,
            } => {
                if strikes_within(*window, failure) >= *errors {
                    Decision::Fail
                } else {
                    Decision::Sleep(Wake::After(*sleep))
                }
            }
            Self::Exponential {
                base,
                factor,
                cap,
                attempts,
            } => {
                if failure.attempts >= *attempts {
                    return Decision::Fail;
                }
                let power = failure.attempts.saturating_sub(1).min(1000) as f64;
                let cap = (*cap).min(MAX_WAIT).as_secs_f64();
                let bound = (base.as_secs_f64() * factor.powf(power)).min(cap).max(0.0);
                let wait = bound * failure.jitter.clamp(0.0, 1.0);
                Decision::Sleep(Wake::After(
                    Duration::try_from_secs_f64(wait).unwrap_or(Duration::ZERO),
                ))
            }
            Self::Never => Decision::Fail,
            Self::Abandoned => {
                let last = failure.errors.last();
                let abandoned = last.is_some_and(ErrorEntry::is_abandonment);
                if abandoned && failure.attempts < MAX_ABANDONED {
                    Decision::Run
                } else {
                    Decision::Fail
                }
            }
        }
    }

    fn keeps(&self) -> usize {
        match self {
            Self::Strikes { errors, .. } => DEFAULT_KEPT.max(*errors as usize),
            _ => DEFAULT_KEPT,
        }
    }

    fn left(&self, failure: &Failure<'_>) -> Option<u32> {
        let (limit, used) = match self {
            Self::Strikes { errors, window, .. } => (*errors, strikes_within(*window, failure)),
            Self::Exponential { attempts, .. } => (*attempts, failure.attempts),
            Self::Never => (0, 0),
            Self::Abandoned => (MAX_ABANDONED, failure.attempts),
        };
        Some(limit.saturating_sub(used))
    }
}

#[cfg(test)]
mod tests;
