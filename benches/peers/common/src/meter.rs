//! Time, processor time and memory of this process.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Error;

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

    /// Returns the figures of a phase that took this time for each task, in their order.
    pub fn figures_of_times(&self, mut times: Vec<Duration>) -> Value {
        let mut figures = self.figures(times.len(), Vec::new(), self.elapsed());
        times.sort_unstable();
        for (name, percent) in [("p50_ms", 50), ("p99_ms", 99)] {
            let at = times.len().saturating_sub(1) * percent / 100;
            let time = times.get(at).copied().unwrap_or_default();
            figures[name] = (time.as_secs_f64() * 1000.0).into();
        }
        figures
    }
}

/// Returns the resident set of this process.
///
/// # Errors
///
/// `/proc/self/status` has no resident set.
pub fn resident_bytes() -> Result<u64, Error> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mut lines = status.lines();
    let kib = lines.find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = kib.and_then(|kib| kib.trim().strip_suffix(" kB"));
    let kib = kib.ok_or("/proc/self/status has no VmRSS in kB")?;
    Ok(kib.parse::<u64>()? * 1024)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let times = (0..101).rev().map(Duration::from_millis).collect();
        let figures = Meter::start().figures_of_times(times);
        assert_eq!(
            (&figures["p50_ms"], &figures["p99_ms"]),
            (&json!(50.0), &json!(99.0))
        );
        assert_eq!(figures["done"], 101);
    }
}
