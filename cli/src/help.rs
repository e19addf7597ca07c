//! Help texts of options that several commands have.

/// The help of `--at-once`.
pub(crate) const AT_ONCE: &str =
    "Run at most N tasks with this key at once, in the whole namespace";

/// The help of `--rate`.
pub(crate) const RATE: &str = "Start at most N tasks with this key within any DURATION, in the whole namespace. Each attempt \
    of a task counts as one start, whether it is the first, a retry or the next run after a sleep or a pause";

/// The help of `--retry`.
pub(crate) const RETRY: &str = "Set what follows a failed attempt: a number of attempts, 'exponential' (8 attempts; random waits of up to \
    1s, 2s, 4s … 5m; a number has the same waits, and '20,cap=7d' waits of up to a week), 'strikes' (8 failures within 4h fail \
    the task; 10m between attempts), 'never', 'abandoned' (only an attempt whose worker died is followed by another) or JSON, \
    such as {\"policy\":\"exponential\",\"attempts\":5,\"cap\":\"10m\"}. A command that is stopped with its worker has not \
    failed: it starts again under every policy, even 'never'";
