//! [`Screen`]: the messages of a run on standard error other than results: the bar, lines, an outage of the store.

use std::{
    collections::HashMap,
    io::IsTerminal,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use windlass::store::{Error, sqlite::Location};

use crate::{
    global::Global,
    hint::Hint,
    output::Output,
    text::one_line,
    view::human,
    waiting::{PATIENCE, patiently},
};

/// The free space, in bytes, below which a disk counts as full.
const FULL: u64 = 1 << 20;
/// How long the store may fail before it is reported: a cluster elects a leader in less.
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

/// A sign that the store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Sign {
    /// A call that reads returned an error.
    Read,
    /// A call that writes returned an error.
    Write,
    /// The node could not store the result of a command.
    Result,
    /// The node did not renew its lease in time.
    Lease,
}

impl Sign {
    /// Returns whether the run waits for at most [`PATIENCE`]. The node waits without a limit.
    fn has_limit(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// The known state of the store.
#[derive(Debug, Default)]
struct Outage {
    /// The present signs, and since when. Each sign ends with its own kind of success: with a full disk, the
    /// store can read, and may accept a small write.
    signs: HashMap<Sign, Instant>,
    /// When the outage was reported.
    said: Option<Instant>,
    /// Whether that said for how long the run waits.
    said_limit: bool,
}

impl Outage {
    /// Ends a sign. If no sign is left and the outage was reported, returns when.
    fn works(&mut self, sign: Sign) -> Option<Instant> {
        self.signs.remove(&sign);
        match self.signs.is_empty() {
            true => {
                self.said_limit = false;
                self.said.take()
            }
            false => None,
        }
    }
}

impl Screen {
    /// Returns a screen, with a bar if standard error is a terminal. `total` is the number of
    /// lines.
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

    /// Prints a message without interference of the bar; not with `-q`.
    pub(super) fn note(&self, text: impl std::fmt::Display) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.out.note(text)),
            None => self.out.note(text),
        }
    }

    /// Returns the bar, if there is one.
    pub(super) fn bar(&self) -> Option<&ProgressBar> {
        self.bar.as_ref()
    }

    /// Removes the bar, because it is out of date.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Retries a call until the store responds, for at most `limit`, and reports when that takes
    /// long. A run waits for space on a full disk without a limit, as the report says.
    ///
    /// # Errors
    ///
    /// The last error.
    pub(super) async fn ask<T, Answer>(
        &self,
        limit: Duration,
        mut ask: impl FnMut() -> Answer,
    ) -> Result<T, Error>
    where
        Answer: Future<Output = Result<T, Error>>,
    {
        let ask = || {
            let answer = ask();
            async move {
                let answer = answer.await;
                self.sign(Sign::Read, answer.as_ref().err());
                answer
            }
        };
        ask_while(limit, || self.waits_for_space(limit), ask).await
    }

    /// Returns whether a run goes on waiting although this time has passed. When only the summary is left, nothing but the
    /// limit ends the wait.
    pub(super) fn waits_for_space(&self, limit: Duration) -> bool {
        limit >= PATIENCE && self.is_full()
    }

    /// Notes the result of a write.
    pub(super) fn answered(&self, error: Option<&Error>) {
        self.sign(Sign::Write, error);
    }

    /// Notes the result of a call to the store.
    fn sign(&self, sign: Sign, error: Option<&Error>) {
        match error.filter(|e| e.is_retryable()) {
            Some(error) => self.store_fails(sign, Some(&error.to_string())),
            None => self.store_works(sign),
        }
    }

    /// Notes that the store fails. Reports it once, unless it is over in a moment.
    pub(super) fn store_fails(&self, sign: Sign, error: Option<&str>) {
        let mut outage = self.lock();
        let since = *outage.signs.entry(sign).or_insert_with(Instant::now);
        let limit = sign.has_limit().then_some(PATIENCE);
        let is_said = outage.said.is_some() && (limit.is_none() || outage.said_limit);
        // A lease has been late for a while already.
        if is_said || sign != Sign::Lease && since.elapsed() < HICCUP {
            return;
        }
        outage.said.get_or_insert_with(Instant::now);
        outage.said_limit = limit.is_some();
        drop(outage);
        self.clear();
        let state = State {
            file: self.file.as_deref(),
            free: self.free(),
            limit,
        };
        self.note(waiting_text(state, error, &self.hint));
    }

    /// Notes that the store works. Reports it if the outage was reported.
    pub(super) fn store_works(&self, sign: Sign) {
        let said = self.lock().works(sign);
        if let Some(since) = said {
            if let Some(bar) = &self.bar {
                bar.reset();
            }
            self.note(format_args!(
                "the store works again after {}; the run continues",
                human(since.elapsed())
            ));
        }
    }

    /// Reports that the results of this many commands were given up.
    pub(super) fn results_given_up(&self, commands: usize, reason: &str) {
        let why = match self.is_full() {
            true => "the store is full".to_owned(),
            false => one_line(reason),
        };
        self.note(given_up_text(commands, &why));
    }

    /// Returns whether the disk of the store is full.
    pub(super) fn is_full(&self) -> bool {
        self.free().is_some_and(|free| free < FULL)
    }

    /// Returns whether an outage was reported, so that the content of a bar would be out of date.
    pub(super) fn is_out(&self) -> bool {
        self.lock().said.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Outage> {
        // Nothing panics between two steps of a change.
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many bytes the disk of the store has free.
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

/// Retries a call for at most `limit`, and again for as long while `waits`.
async fn ask_while<T, Answer>(
    limit: Duration,
    waits: impl Fn() -> bool,
    mut ask: impl FnMut() -> Answer,
) -> Result<T, Error>
where
    Answer: Future<Output = Result<T, Error>>,
{
    loop {
        match patiently(limit, &mut ask).await {
            Err(error) if error.is_retryable() && waits() => {}
            answer => return answer,
        }
    }
}

/// What is known of a store that fails.
#[derive(Clone, Copy)]
struct State<'a> {
    /// Its file, if it is one.
    file: Option<&'a Path>,
    /// How many bytes its disk has free.
    free: Option<u64>,
    /// How long the run waits for it, unless its disk is full.
    limit: Option<Duration>,
}

/// Returns a text that says that the run waits for the store, why, for how long, and how to end that.
fn waiting_text(
    State { file, free, limit }: State<'_>,
    error: Option<&str>,
    hint: &Hint,
) -> String {
    let reason = error.map(one_line);
    let limit = limit.map_or_else(String::new, |limit| {
        format!(" for at most {}", human(limit))
    });
    match (file, reason) {
        (Some(file), _) if free.is_some_and(|free| free < FULL) => format!(
            "the store is full: waiting; free space on the disk of {}, and the run continues",
            file.display()
        ),
        (_, Some(reason)) => format!("the store does not answer: waiting{limit} ({reason})"),
        (Some(file), None) => format!(
            "the store accepts no writes: waiting{limit}; is there room on the disk of {}, and does another \
             program hold the file locked?",
            file.display()
        ),
        (None, None) => format!(
            "the store accepts no writes: waiting{limit}; `{}` says more",
            hint.command("doctor")
        ),
    }
}

/// Returns a text that says that the results of commands were given up, and what follows.
fn given_up_text(commands: usize, why: &str) -> String {
    match commands {
        1 => format!("{why}: 1 end could not be stored; its command runs again"),
        n => format!("{why}: {n} ends could not be stored; their commands run again"),
    }
}

#[cfg(test)]
mod tests;
