//! [`Latency`]: how long calls to the store took.

use std::time::{Duration, Instant};

use super::{Finding, Verdict};
use crate::store::Error;

/// How long calls of one kind took.
#[derive(Debug, Default)]
pub(crate) struct Latency(Vec<Duration>);

impl Latency {
    pub(crate) async fn measure<T>(
        &mut self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let started = Instant::now();
        let answer = call.await?;
        self.0.push(started.elapsed());
        Ok(answer)
    }

    fn text(&mut self) -> String {
        self.0.sort();
        let ms = |d: Option<&Duration>| d.map_or(0.0, |d| d.as_secs_f64() * 1000.0);
        let p50 = ms(self.0.get(self.0.len() / 2));
        format!("p50 {p50:.1} ms, at most {:.1} ms", ms(self.0.last()))
    }

    fn most(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }

    /// Returns the finding about the duration of reads and writes.
    pub(crate) fn finding(mut reads: Self, mut writes: Self) -> Finding {
        let mut found = format!("reads {}", reads.text());
        if !writes.0.is_empty() {
            found = format!("{found}; writes {}", writes.text());
        }
        if reads.most().max(writes.most()) < Duration::from_millis(500) {
            return Finding::ok("latency", found);
        }
        let advice = "check the disk and the network of the store: leases are renewed through it";
        Finding::new("latency", Verdict::Warning, found, advice)
    }
}
