//! [`Output`]: tables, JSON, notes and progress bars.

use std::io::{IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use serde::Serialize;

use crate::{
    exit::Failure,
    layout,
    logs::Stream,
    text::{json, one_line},
};

/// How to print.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs: one JSON document a line.
    Json,
}

/// The output. A failed write is an error, not a panic, because readers may close it.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    format: Format,
    color: bool,
    quiet: bool,
}

impl Output {
    /// Returns an output in this format, with or without colours. With `quiet` it prints no notes
    /// and bars.
    pub(crate) fn new(format: Format, color: bool, quiet: bool) -> Self {
        Self {
            format,
            color,
            quiet,
        }
    }

    /// Returns whether JSON is wanted.
    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Prints bytes as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()?;
        Ok(())
    }

    /// Prints bytes of a command's stream to the same stream of this program.
    pub(crate) fn stream(&self, stream: Stream, bytes: &[u8]) -> Result<(), Failure> {
        match stream {
            Stream::Stdout => self.bytes(bytes),
            Stream::Stderr => Ok(std::io::stderr().write_all(bytes)?),
        }
    }

    /// Prints a line.
    pub(crate) fn line(&self, text: impl std::fmt::Display) -> Result<(), Failure> {
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// Prints a JSON document on its own line.
    pub(crate) fn json<T: Serialize + ?Sized>(&self, value: &T) -> Result<(), Failure> {
        match serde_json::to_string(value) {
            Ok(text) => self.line(json(&text)),
            Err(e) => Err(Failure::Store(format!("this has no JSON form: {e}"))),
        }
    }

    /// Prints a table; nothing if it has no rows. On a terminal that is too narrow, long cells are
    /// wrapped.
    pub(crate) fn table(&self, header: &[&str], rows: Vec<Vec<Cell>>) -> Result<(), Failure> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        // Overlong lines are better than columns of one letter; some terminals report a width of
        // zero.
        if table.width().is_some_and(|width| width >= 60) {
            table.set_content_arrangement(ContentArrangement::Dynamic);
        }
        self.print(table, header, rows)
    }

    /// Prints a table like [`table`](Self::table). On a terminal that is too narrow each row stays
    /// on one line: the columns of `less` are left out in that order, then the widest one is
    /// shortened.
    pub(crate) fn narrow_table(
        &self,
        header: &[&str],
        less: &[&str],
        mut rows: Vec<Vec<Cell>>,
    ) -> Result<(), Failure> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let header = match self.width(&table) {
            Some(width) => layout::fit(width, header, less, &mut rows),
            None => header.to_vec(),
        };
        self.print(table, &header, rows)
    }

    /// Returns the width of the terminal; `None` without one. Some terminals report a width of
    /// zero.
    fn width(&self, table: &Table) -> Option<usize> {
        table.width().filter(|width| *width > 0).map(usize::from)
    }

    fn print(
        &self,
        mut table: Table,
        header: &[&str],
        rows: Vec<Vec<Cell>>,
    ) -> Result<(), Failure> {
        if self.color {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        let bold = |name: &&str| Cell::new(name).add_attribute(Attribute::Bold);
        table.set_header(header.iter().map(bold).collect::<Vec<_>>());
        table.add_rows(rows);
        for column in table.column_iter_mut() {
            column.set_padding((0, layout::GAP as u16));
        }
        self.line(table.trim_fmt())
    }

    /// Prints a note on standard error; not with `-q`.
    pub(crate) fn note(&self, text: impl std::fmt::Display) {
        if !self.quiet {
            // If standard error is closed, there is no reader.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }

    /// Prints an error about a part of the work on standard error.
    pub(crate) fn complain(&self, text: impl std::fmt::Display) {
        // If standard error is closed, there is no reader.
        let _ = writeln!(std::io::stderr(), "error: {}", one_line(&text.to_string()));
    }

    /// Returns a progress bar on standard error; a hidden one without a terminal, with `-q`, or
    /// when there is little to do.
    pub(crate) fn progress(&self, total: u64, what: &'static str) -> ProgressBar {
        if total < 200 {
            return ProgressBar::hidden();
        }
        let template = "{msg} {wide_bar} {human_pos}/{human_len}  {rate}  {eta} left";
        self.bar(ProgressBar::new(total), template, what)
    }

    /// Returns a progress bar like [`progress`](Self::progress), for an unknown total.
    pub(crate) fn count_up(&self, what: &'static str) -> ProgressBar {
        self.bar(
            ProgressBar::no_length(),
            "{spinner} {human_pos} {msg}  {rate}",
            what,
        )
    }

    fn bar(&self, bar: ProgressBar, template: &str, what: &'static str) -> ProgressBar {
        if self.quiet || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let rate = |state: &ProgressState, w: &mut dyn std::fmt::Write| {
            // Writing to the line of a bar does not fail.
            let _ = write!(w, "{:.0}/s", state.per_sec());
        };
        match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style.with_key("rate", rate)),
            Err(_) => bar,
        }
        .with_message(what)
    }
}
