//! Time, processor time and memory of this process.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Measures one phase.
#[derive(Debug)]
pub struct Meter {
    begun: Instant,
    used: Duration,
}

impl Meter {
    /// Begins a phase.
    pub fn start() -> Self {
        Self {
            begun: Instant::now(),
            used: processor_time(),
        }
    }

    /// Returns the time since the begin of the phase.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns the figures of a phase in which this many tasks were done.
    pub fn figures(&self, done: usize, facts: Vec<(String, String)>, elapsed: Duration) -> Value {
        let facts: serde_json::Map<String, Value> = facts
            .into_iter()
            .map(|(name, text)| (name, text.into()))
            .collect();
        json!({
            "done": done,
            "seconds": elapsed.as_secs_f64(),
            "processor_seconds": (processor_time() - self.used).as_secs_f64(),
            "facts": facts,
        })
    }
}

/// Returns the processor time that this process has used.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which is in brackets: state is field 3, utime 14 and stime 15, in hundredths of a second.
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|n| n.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
