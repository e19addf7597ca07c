//! [`Page`]: what is on the screen: the data, whether they are new, and the part of the lines that is shown.

use std::time::Duration;

use ratatui::{
    Frame,
    layout::Rect,
    text::{Line, Text},
};
use tokio::time::Instant;

use super::{
    data::Data,
    lines::{Sort, body},
    text::{Tone, cut, left, line, right},
};
use crate::view::human;

/// The smallest screen.
const LEAST: (u16, u16) = (40, 10);
/// The lines around the body.
const AROUND: usize = 2;

/// The last data that were read.
#[derive(Debug, Clone)]
pub(super) struct Latest {
    pub(super) data: Data,
    /// When they were read.
    pub(super) read: Instant,
    /// Why the last read failed, if it did.
    pub(super) failing: Option<String>,
}

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Pause,
    Sort,
    /// By this many lines.
    Lines(isize),
    /// By this many screens.
    Screens(isize),
}

/// What is on the screen.
pub(super) struct Page {
    name: String,
    latest: Latest,
    is_paused: bool,
    sort: Sort,
    /// The number of the first line of the body that is shown.
    top: usize,
    /// The lines of the body that were shown last.
    shown: usize,
    /// After which time without new data the page says so.
    patience: Duration,
}

impl Page {
    pub(super) fn new(name: String, latest: Latest, every: Duration) -> Self {
        Self {
            name,
            latest,
            is_paused: false,
            sort: Sort::Number,
            top: 0,
            shown: 1,
            patience: every * 2 + Duration::from_secs(3),
        }
    }

    /// Takes new data, unless the updates are paused.
    pub(super) fn update(&mut self, latest: Latest) {
        if !self.is_paused {
            self.latest = latest;
        }
    }

    /// Does what a key asks for. Returns whether the newest data are wanted.
    pub(super) fn press(&mut self, key: Key) -> bool {
        match key {
            Key::Pause => {
                self.is_paused = !self.is_paused;
                return !self.is_paused;
            }
            Key::Sort => self.sort = self.sort.other(),
            Key::Lines(by) => self.top = self.top.saturating_add_signed(by),
            Key::Screens(by) => {
                let by = by.saturating_mul(self.shown.cast_signed());
                self.top = self.top.saturating_add_signed(by);
            }
        }
        false
    }

    /// Returns whether the data are new, and what to say if not.
    fn status(&self, now: Instant) -> Option<(String, bool)> {
        let age = now.saturating_duration_since(self.latest.read);
        let seconds = age.as_secs();
        if self.is_paused {
            return Some((format!("paused, data is {seconds} s old"), false));
        }
        match &self.latest.failing {
            Some(why) => Some((format!("no answer for {seconds} s: {why}"), true)),
            None if age > self.patience => Some((format!("no answer for {seconds} s"), true)),
            None => None,
        }
    }

    /// Returns the first line: what is shown, and whether it is new.
    fn head(&self, now: Instant, width: usize) -> Line<'static> {
        match self.status(now) {
            Some((status, true)) => line(&status, Tone::Bad, width),
            Some((status, false)) => {
                let name = width.saturating_sub(status.len() + 2);
                line(
                    &format!("{}  {status}", left(&self.name, name)),
                    Tone::Title,
                    width,
                )
            }
            None => {
                let activity = &self.latest.data.activity;
                let since = activity.at.duration_since(activity.since).unsigned_abs();
                let since = human(Duration::from_secs(since.as_secs()));
                let since = format!("counts {since}");
                let name = width.saturating_sub(since.len() + 2);
                line(
                    &format!("{}  {since}", left(&self.name, name)),
                    Tone::Title,
                    width,
                )
            }
        }
    }

    /// Returns the last line: the keys, and which part of the body is shown.
    fn foot(&self, lines: usize, width: usize) -> Line<'static> {
        let pause = if self.is_paused { "go on" } else { "pause" };
        let sort = match self.sort {
            Sort::Number => "name",
            Sort::Name => "number",
        };
        let keys = format!("q quit  p {pause}  s by {sort}");
        let last = (self.top + self.shown).min(lines);
        let part = match lines > self.shown {
            true => format!("↑↓ {}-{last}/{lines}", self.top + 1),
            false => String::new(),
        };
        let rest = width.saturating_sub(keys.len() + 1);
        line(
            &format!("{keys} {}", right(&part, rest)),
            Tone::Faint,
            width,
        )
    }

    /// Draws the page.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, now: Instant, colors: bool) {
        let area = frame.area();
        if area.width < LEAST.0 || area.height < LEAST.1 {
            let (width, height) = LEAST;
            let text = format!("needs {width}x{height}, has {}x{}", area.width, area.height);
            put(frame, 0, Line::from(cut(&text, area.width.into())), true);
            return;
        }
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let lines = body(&self.latest.data, self.sort, width);
        self.shown = height - AROUND;
        self.top = self.top.min(lines.len().saturating_sub(self.shown));
        put(frame, 0, self.head(now, width), colors);
        let count = lines.len();
        let shown = lines.into_iter().skip(self.top).take(self.shown);
        for (row, line) in (1..).zip(shown) {
            put(frame, row, line, colors);
        }
        let last = area.height - 1;
        put(frame, last, self.foot(count, width), colors);
    }
}

/// Puts a line into a row. Without colours nothing but the text is sent to the terminal.
fn put(frame: &mut Frame<'_>, row: u16, line: Line<'static>, colors: bool) {
    let area = frame.area();
    if row >= area.height {
        return;
    }
    let at = Rect::new(area.x, area.y + row, area.width, 1);
    match colors {
        true => frame.render_widget(Text::from(line), at),
        false => frame.render_widget(Text::raw(super::text::printed(&line, false)), at),
    }
}

#[cfg(test)]
mod tests;
