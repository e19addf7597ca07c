//! The tasks of a run, drawn from a seed.

use std::{collections::VecDeque, path::Path, time::Duration};

use fastrand::Rng;
use windlass::{Limit, NewTask, Retry};

use crate::{
    kinds::{self, Job},
    time,
    world::EXEC_FILE,
};

/// How many of a hundred tasks are of which kind.
const MIX: [(&str, u32); 11] = [
    ("steps", 15),
    ("asked", 8),
    ("sower", 4),
    ("naps", 16),
    ("waits", 8),
    ("flaky", 10),
    ("doomed", 4),
    ("deaf", 5),
    ("parent", 8),
    ("far", 5),
    ("exec", 17),
];

/// The keys of limits.
const KEYS: [&str; 3] = ["red", "green", "blue"];

/// The steps of tasks with limits take no longer, in milliseconds: such tasks run one after the other.
const SHORT: u64 = 40;

/// Counts in the task's folder, and records it. Reads processes from `/proc`, so that a process
/// that has ended but was not waited for does not count as alive.
const SCRIPT: &str = r#"
say() {
    read -r up _ < /proc/uptime
    echo "$up $WINDLASS_TASK_ID $WINDLASS_FENCE $*" >> "$WITNESS"
    echo "$*"
}
cd "$WINDLASS_STATE_DIR" || exit 9
if read -r pid fence 2>/dev/null < run; then
    if { read -r _ name state _ < "/proc/$pid/stat"; } 2>/dev/null; then
        case "$name $state" in
        "(sh) Z" | "(sh) X") ;;
        "(sh) "*) say overlap "$fence" ;;
        esac
    fi
fi
echo "$$ $WINDLASS_FENCE" > run
n=0
read -r n 2>/dev/null < n
say start "$n"
[ "$WINDLASS_ATTEMPT" -le "$FAILS" ] && exit 3
while [ "$n" -lt "$TOTAL" ]; do
    sleep "$PAUSE"
    n=$((n + 1))
    echo "$n" > new && mv new n
    say step "$n"
done
rm -f run
exit 0
"#;

/// The tasks of a seed.
#[derive(Debug)]
pub struct Plan {
    rng: Rng,
    exec_file: String,
    without: &'static [&'static str],
    made: usize,
    /// Whether some tasks have deadlines.
    has_deadlines: bool,
    /// Whether some tasks are worked on in batches.
    has_batches: bool,
    /// How long some handlers are silent, in milliseconds.
    silence: Option<u64>,
    /// The last tasks that end; `None` when no task waits for others.
    recent: Option<VecDeque<String>>,
}

/// How many of the last tasks another may wait for.
const RECENT: usize = 30;

impl Plan {
    /// A plan; `witnesses` is the folder that handlers write to.
    pub fn new(seed: u64, witnesses: &Path) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            exec_file: witnesses.join(EXEC_FILE).display().to_string(),
            without: &[],
            made: 0,
            has_deadlines: false,
            has_batches: false,
            silence: None,
            recent: Some(VecDeque::new()),
        }
    }

    /// The same plan, with deadlines for some of the tasks.
    #[must_use]
    pub fn with_deadlines(mut self) -> Self {
        self.has_deadlines = true;
        self
    }

    /// Returns the same plan, with some tasks that are worked on in batches.
    #[must_use]
    pub fn with_batches(mut self) -> Self {
        self.has_batches = true;
        self
    }

    /// Returns the same plan, with some handlers that write nothing and ignore every command for this long.
    #[must_use]
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = u64::try_from(silence.as_millis()).ok();
        self
    }

    /// Returns the same plan with tasks of the first kind instead of these kinds, and without waits.
    #[must_use]
    pub fn without(mut self, kinds: &'static [&'static str]) -> Self {
        self.recent = None;
        self.without_kinds(kinds)
    }

    /// Returns the same plan with tasks of the first kind instead of these kinds.
    #[must_use]
    pub fn without_kinds(mut self, kinds: &'static [&'static str]) -> Self {
        self.without = kinds;
        self
    }

    /// Draws the tasks that a task waits for; most wait for none.
    fn after(&mut self, kind: &str, id: &str) -> Vec<String> {
        let Some(recent) = &mut self.recent else {
            return Vec::new();
        };
        let mut after = Vec::new();
        if self.rng.u32(0..6) == 0 {
            let count = self.rng.usize(1..=3);
            after.extend((0..count).filter_map(|_| {
                let at = self.rng.usize(0..recent.len().max(1));
                recent.get(at).cloned()
            }));
            after.sort_unstable();
            after.dedup();
        }
        if kind != "far" {
            recent.push_back(id.to_owned());
        }
        if recent.len() > RECENT {
            recent.pop_front();
        }
        after
    }

    fn kind(&mut self) -> &'static str {
        if self.has_batches && self.rng.u32(0..15) == 0 {
            return kinds::BATCHED;
        }
        let mut drawn = self.rng.u32(0..100);
        for (kind, share) in MIX {
            if drawn < share {
                let left_out = self.without.contains(&kind);
                return if left_out { MIX[0].0 } else { kind };
            }
            drawn -= share;
        }
        MIX[0].0
    }
}

/// Draws the limits of a task: one task in six has one, or two of different keys.
fn limits(rng: &mut Rng) -> Vec<Limit> {
    let count = match rng.u32(0..24) {
        0..3 => 1,
        3 => 2,
        _ => 0,
    };
    let keys = KEYS.iter().cycle().skip(rng.usize(0..KEYS.len()));
    let limits = keys
        .take(count)
        .map(|key| Limit::at_once(*key, rng.u32(1..=3)));
    // All of these are valid.
    limits.filter_map(Result::ok).collect()
}

/// Draws the deadlines of a task: one task in four has one, or both. Some pass before the task can start, some
/// while it runs or is parked, and some never. A task starts after `starts`, and `waits` if it waits for others:
/// then some deadlines pass before those can end, on a fast machine too.
fn deadlines(rng: &mut Rng, task: NewTask, (starts, waits): (Duration, bool)) -> NewTask {
    let (starts_by, ends_by) = match rng.u32(0..12) {
        0 => (true, false),
        1 => (false, true),
        2 => (true, true),
        _ => (false, false),
    };
    let wait = match rng.u32(0..3) {
        0 if waits => rng.u64(1..20),
        0 => rng.u64(100..1500),
        1 => rng.u64(1500..15_000),
        _ => 3_600_000,
    };
    let start = starts + Duration::from_millis(wait);
    let task = match starts_by {
        true => task.start_within(start),
        false => task,
    };
    match ends_by {
        true => task.end_within(start + Duration::from_millis(rng.u64(0..3000))),
        false => task,
    }
}

impl Iterator for Plan {
    type Item = NewTask;

    fn next(&mut self) -> Option<NewTask> {
        self.made += 1;
        let kind = self.kind();
        let id = format!("{kind}-{:05}", self.made);
        let after = self.after(kind, &id);
        let waits = !after.is_empty();
        let rng = &mut self.rng;
        let mut task = NewTask::new(kind)
            .id(id)
            .after(after)
            .priority(rng.i32(-1..=1))
            // Sent again when the answer was lost, it is the same task.
            .idempotent();
        // A task that waits for others has no start.
        let mut starts = Duration::ZERO;
        if rng.u32(0..20) == 0 && !waits {
            starts = Duration::from_millis(rng.u64(100..1500));
            let starts = jiff::SignedDuration::try_from(starts).unwrap_or_default();
            task = task.start_at(time::wall() + starts);
        }
        if self.has_deadlines {
            task = deadlines(rng, task, (starts, waits));
        }
        let limits = limits(rng);
        let is_limited = !limits.is_empty();
        task = limits.into_iter().fold(task, NewTask::limit);
        let retry = |attempts| Retry::Exponential {
            base: Duration::from_millis(50),
            factor: 1.5,
            cap: Duration::from_millis(500),
            attempts,
        };
        if kind == "exec" {
            let fails = if rng.u32(0..5) == 0 { 1 } else { 0 };
            return Some(task.retry(retry(1_000_000)).props(&serde_json::json!({
                "shell": SCRIPT,
                "grace": "300ms",
                "env": {
                    "WITNESS": self.exec_file,
                    "TOTAL": rng.u32(1..=5).to_string(),
                    "PAUSE": format!("0.{}", rng.u32(1..=if is_limited { 1 } else { 3 })),
                    "FAILS": fails.to_string(),
                },
            })));
        }
        let mut job = Job {
            total: rng.u64(2..=10),
            ms: rng.u64(10..=150),
            stubborn: matches!(kind, "steps" | "sower") && rng.u32(0..4) == 0,
            releases: kind != "deaf" && rng.u32(0..5) == 0,
            ..Job::default()
        };
        let silence = self.silence.filter(|_| !is_limited);
        match (kind, silence) {
            ("deaf", Some(silence)) if rng.bool() => (job.total, job.ms) = (1, silence),
            _ => {}
        }
        match kind {
            _ if job.total == 1 => {}
            "naps" | "waits" | "sower" => job.total = rng.u64(1..=5),
            "asked" => job.total = rng.u64(5..=20),
            "flaky" => job.fails = rng.u32(1..=6),
            // Some write nothing for longer than the margin of a lease: only the deadline of the lease
            // ends them in time.
            "deaf" if !is_limited && rng.u32(0..4) == 0 => (job.total, job.ms) = (3, 1000),
            "deaf" => job.total = rng.u64(5..=20),
            "parent" => job.children = rng.u64(1..=2),
            "doomed" => task = task.retry(retry(3)),
            _ => {}
        }
        if is_limited {
            job.ms = job.ms.min(SHORT);
        }
        Some(task.props(&job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_tasks_again() {
        let plan = |seed| {
            let plan = Plan::new(seed, Path::new("/w")).take(50);
            plan.map(|t| t.build().unwrap().task.id.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }

    #[test]
    fn one_task_of_six_has_limits() {
        let plan = Plan::new(1, Path::new("/w")).take(2000);
        let counts = plan.map(|task| task.build().unwrap().task.limits.len());
        let counts: Vec<usize> = counts.filter(|count| *count > 0).collect();
        assert!((200..500).contains(&counts.len()), "{}", counts.len());
        assert!(counts.contains(&2));
    }

    #[test]
    fn one_task_of_four_has_deadlines_if_the_plan_has_them() {
        let count = |plan: Plan| {
            let tasks = plan.take(1000).map(|task| task.build().unwrap().task);
            let timed = |task: &windlass::Task| task.start_by.is_some() || task.end_by.is_some();
            tasks.filter(timed).count()
        };
        let plan = || Plan::new(1, Path::new("/w"));
        assert_eq!(count(plan()), 0);
        assert!((150..350).contains(&count(plan().with_deadlines())));
    }

    #[test]
    fn the_mix_is_whole() {
        assert_eq!(MIX.iter().map(|(_, share)| share).sum::<u32>(), 100);
        for (kind, _) in MIX {
            assert!(kind == "exec" || crate::kinds::KINDS.contains(&kind));
        }
    }
}
