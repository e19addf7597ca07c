//! [`Screen`]: what a run says on standard error besides its results: the bar, lines, an outage of the
//! store.

use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use windlass::store::{Error, sqlite::Location};

use crate::{
    global::Global, hint::Hint, output::Output, text::one_line, view::human, waiting::patiently,
};

/// A disk with less than this is full.
const FULL: u64 = 1 << 20;
/// How long the store may fail before a line says so: a cluster elects a leader in less.
const HICCUP: Duration = Duration::from_secs(1);

/// Prints on standard error. Clones share one screen.
#[derive(Debug, Clone)]
pub(super) struct Screen {
    out: Output,
    bar: Option<ProgressBar>,
    /// The file of the store, if it is one.
    file: Option<PathBuf>,
    outage: Arc<Mutex<Outage>>,
    hint: Hint,
}

/// What shows that the store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// A call of this run returned an error.
    Call,
    /// The node did not renew its lease in time.
    Lease,
}

/// What is known of the store.
#[derive(Debug, Default)]
struct Outage {
    /// Since when each sign has shown that it fails.
    calls: Option<Instant>,
    lease: Option<Instant>,
    /// When a line said so.
    said: Option<Instant>,
}

impl Outage {
    fn sign(&mut self, sign: Sign) -> &mut Option<Instant> {
        match sign {
            Sign::Call => &mut self.calls,
            Sign::Lease => &mut self.lease,
        }
    }
}

impl Screen {
    /// With a bar if standard error is a terminal; `total` is how many lines there are.
    pub(super) fn new(global: &Global, url: &str, total: Option<u64>) -> Self {
        let bar = (!global.quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = total.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
            let template = match total {
                Some(_) => "{wide_bar} {human_pos}/{human_len} {msg}",
                None => "{spinner} {human_pos} {msg}",
            };
            match ProgressStyle::with_template(template) {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        Self {
            out: global.out(),
            bar,
            file: Location::of(url).map(|file| file.path().to_owned()),
            outage: Arc::default(),
            hint: global.hint(),
        }
    }

    /// Says something without the bar in the way. `-q` leaves it out.
    pub(super) fn note(&self, text: impl std::fmt::Display) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.out.note(text)),
            None => self.out.note(text),
        }
    }

    /// The bar, if there is one.
    pub(super) fn bar(&self) -> Option<&ProgressBar> {
        self.bar.as_ref()
    }

    /// Removes the bar: what it shows is not true any more.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Asks the store until it answers, for at most `limit`, and says when that takes long.
    ///
    /// # Errors
    ///
    /// The last one.
    pub(super) async fn ask<T, Answer>(
        &self,
        limit: Duration,
        mut ask: impl FnMut() -> Answer,
    ) -> Result<T, Error>
    where
        Answer: Future<Output = Result<T, Error>>,
    {
        let answer = patiently(limit, || {
            let answer = ask();
            async move {
                let answer = answer.await;
                self.answered(answer.as_ref().err());
                answer
            }
        });
        answer.await
    }

    /// A call of the store returned this error, or none.
    pub(super) fn answered(&self, error: Option<&Error>) {
        match error.filter(|e| e.is_retryable()) {
            Some(error) => self.store_fails(Sign::Call, Some(error)),
            None => self.store_works(Sign::Call),
        }
    }

    /// The store does not do what it was asked. Says so once, unless it is over in a moment.
    pub(super) fn store_fails(&self, sign: Sign, error: Option<&Error>) {
        let mut outage = self.lock();
        let since = *outage.sign(sign).get_or_insert_with(Instant::now);
        // A lease has been late for a while already.
        if outage.said.is_some() || sign == Sign::Call && since.elapsed() < HICCUP {
            return;
        }
        outage.said = Some(Instant::now());
        drop(outage);
        self.clear();
        let free = self.free();
        self.note(waiting_text(self.file.as_deref(), free, error, &self.hint));
    }

    /// The store does what it was asked. Says so if a line said that it did not.
    pub(super) fn store_works(&self, sign: Sign) {
        let mut outage = self.lock();
        *outage.sign(sign) = None;
        if outage.calls.is_some() || outage.lease.is_some() {
            return;
        }
        let said = outage.said.take();
        drop(outage);
        if let Some(since) = said {
            if let Some(bar) = &self.bar {
                bar.reset();
            }
            self.note(format_args!(
                "the store works again after {}; the run goes on",
                human(since.elapsed())
            ));
        }
    }

    /// Whether a line said that the store fails: what a bar shows would be stale.
    pub(super) fn is_out(&self) -> bool {
        self.lock().said.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Outage> {
        // Nothing panics between two steps of a change.
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes the disk of the store has free.
    fn free(&self) -> Option<u64> {
        let file = std::path::absolute(self.file.as_deref()?).ok()?;
        let stat = nix::sys::statvfs::statvfs(file.parent()?).ok()?;
        let (blocks, size) = (stat.blocks_available(), stat.fragment_size());
        #[allow(
            clippy::unnecessary_cast,
            reason = "these numbers are smaller on other systems"
        )]
        Some((blocks as u64).saturating_mul(size as u64))
    }
}

/// Says that the run waits for the store, why, and what ends that.
fn waiting_text(
    file: Option<&Path>,
    free: Option<u64>,
    error: Option<&Error>,
    hint: &Hint,
) -> String {
    let reason = error.map(|e| one_line(&e.to_string()));
    match (file, reason) {
        (Some(file), _) if free.is_some_and(|free| free < FULL) => format!(
            "the store is full: waiting; free space on the disk of {}, and the run goes on",
            file.display()
        ),
        (_, Some(reason)) => format!("the store does not answer: waiting ({reason})"),
        (Some(file), None) => format!(
            "the store takes no writes: waiting; is there room on the disk of {}, and does another \
             program hold the file locked?",
            file.display()
        ),
        (None, None) => format!(
            "the store takes no writes: waiting; `{}` says more",
            hint.command("doctor")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_waited_for() {
        let file = Some(Path::new("/data/w.db"));
        let error = Error::unavailable("submit a task", "no leader");
        for (file, free, error, says) in [
            (
                file,
                Some(0),
                None,
                "the store is full: waiting; free space on the disk of /data/w.db",
            ),
            (file, Some(FULL), None, "the store takes no writes: waiting"),
            (
                None,
                None,
                Some(&error),
                "waiting (could not submit a task: the store is unavailable: no leader)",
            ),
            (None, None, None, "`windlass doctor` says more"),
        ] {
            let text = waiting_text(file, free, error, &Hint::default());
            assert!(text.contains(says), "{text}");
        }
    }
}
