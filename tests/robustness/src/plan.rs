//! The tasks of a run, drawn from a seed.

use std::{path::Path, time::Duration};

use fastrand::Rng;
use windlass::{NewTask, Retry};

use crate::{kinds::Job, world::EXEC_FILE};

/// How many of a hundred tasks are of which kind.
const MIX: [(&str, u32); 10] = [
    ("steps", 23),
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

/// Counts in the task's folder, and says so. What the processes are is read from `/proc`, so that
/// one that has ended and is not waited for yet does not count as alive.
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
}

impl Plan {
    /// A plan; `witnesses` is the folder that handlers write to.
    pub fn new(seed: u64, witnesses: &Path) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            exec_file: witnesses.join(EXEC_FILE).display().to_string(),
            without: &[],
            made: 0,
        }
    }

    /// The same plan, with tasks of the first kind instead of these.
    #[must_use]
    pub fn without(mut self, kinds: &'static [&'static str]) -> Self {
        self.without = kinds;
        self
    }

    fn kind(&mut self) -> &'static str {
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

impl Iterator for Plan {
    type Item = NewTask;

    fn next(&mut self) -> Option<NewTask> {
        self.made += 1;
        let kind = self.kind();
        let rng = &mut self.rng;
        let mut task = NewTask::new(kind)
            .id(format!("{kind}-{:05}", self.made))
            .priority(rng.i32(-1..=1))
            // Sent again when the answer was lost, it is the same task.
            .idempotent();
        if rng.u32(0..20) == 0 {
            let wait = jiff::SignedDuration::from_millis(rng.i64(100..1500));
            task = task.start_at(jiff::Timestamp::now() + wait);
        }
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
                    "PAUSE": format!("0.{}", rng.u32(1..=3)),
                    "FAILS": fails.to_string(),
                },
            })));
        }
        let mut job = Job {
            total: rng.u64(2..=10),
            ms: rng.u64(10..=150),
            stubborn: kind == "steps" && rng.u32(0..4) == 0,
            ..Job::default()
        };
        match kind {
            "naps" | "waits" | "sower" => job.total = rng.u64(1..=5),
            "flaky" => job.fails = rng.u32(1..=6),
            // Some write nothing for longer than the margin of a lease: only the deadline of the lease
            // ends them in time.
            "deaf" if rng.u32(0..4) == 0 => (job.total, job.ms) = (3, 1000),
            "deaf" => job.total = rng.u64(5..=20),
            "parent" => job.children = rng.u64(1..=2),
            "doomed" => task = task.retry(retry(3)),
            _ => {}
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
    fn the_mix_is_whole() {
        assert_eq!(MIX.iter().map(|(_, share)| share).sum::<u32>(), 100);
        for (kind, _) in MIX {
            assert!(kind == "exec" || crate::kinds::KINDS.contains(&kind));
        }
    }
}
