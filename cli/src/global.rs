//! [`Global`]: the options that every command takes.

use std::{fmt::Debug, io::IsTerminal, path::PathBuf};

use clap::{
    ArgAction, ValueEnum,
    builder::{OsStringValueParser, TypedValueParser},
};
use tracing::field::Field;
use tracing_subscriber::{
    EnvFilter,
    field::MakeExt,
    filter::LevelFilter,
    fmt::{
        self,
        format::{self, Writer},
    },
    layer::{Layer, SubscriberExt},
    util::SubscriberInitExt,
};
use windlass::runner::REPORTS;

use crate::{
    exit::{Exit, Failure},
    hint::Hint,
    output::{Format, Output},
    supervisor::Link,
    text::{JsonLines, escaped},
    traces::Spans,
};

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The options of every command.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The store: sqlite:PATH for a file (sqlite:PATH?synchronous=normal: faster, and a power failure may
    /// lose the latest writes), etcd://HOST:PORT,HOST:PORT/NAMESPACE for a cluster (etcds://
    /// for TLS; needs a build with the feature etcd), or memory: (gone when the program ends)
    /// [default: the file windlass.db in your data directory]
    #[arg(
        long,
        global = true,
        env = "WINDLASS_STORE",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub(crate) store: Option<String>,

    /// The output format
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    pub(crate) output: Format,

    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,

    /// Print no notes and no progress, only results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Log to standard error; give it twice for more detail (WINDLASS_LOG takes a filter, such as
    /// windlass=debug)
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    /// The format of log lines on standard error
    #[arg(
        long,
        global = true,
        env = "WINDLASS_LOG_FORMAT",
        hide_env_values = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    pub(crate) log_format: LogFormat,

    /// A file of settings in TOML, with the names of the options; options and environment variables
    /// take precedence [default: windlass/config.toml in your configuration directory, if it
    /// exists]
    #[arg(
        long,
        global = true,
        env = "WINDLASS_CONFIG",
        hide_env_values = true,
        value_parser = OsStringValueParser::new().map(PathBuf::from),
        value_name = "FILE"
    )]
    pub(crate) config: Option<PathBuf>,

    /// Whether the command line names the store, or the configuration file that does.
    #[arg(skip)]
    pub(crate) is_store_typed: bool,

    /// Write to a store although `windlass copy` has copied it into another one. Without this option such a store refuses new
    /// work. The first write removes the mark of the copy for good: from then on both stores run the copied tasks
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) use_copied: bool,

    /// The link to the supervisor of this process, if it has one.
    #[arg(skip)]
    pub(crate) link: Link,
}

impl Global {
    /// Starts logging to standard error, and passes spans to `spans`. Logs with the filter of `WINDLASS_LOG`, or with the level of
    /// `-v` and `-q` relative to this one.
    ///
    /// # Errors
    ///
    /// When `WINDLASS_LOG` is not a filter.
    pub(crate) fn log(&self, usual: LevelFilter, spans: Option<Spans>) -> Result<(), Failure> {
        // The first -v shows normal events, because warnings alone are of little use.
        let levels = [
            LevelFilter::ERROR,
            LevelFilter::INFO,
            LevelFilter::DEBUG,
            LevelFilter::TRACE,
        ];
        let usual = levels.iter().position(|l| *l == usual).unwrap_or(0);
        let level = match self.quiet {
            true => LevelFilter::ERROR,
            false => levels[(usual + usize::from(self.verbose)).min(levels.len() - 1)],
        };
        let filter = match std::env::var_os("WINDLASS_LOG").filter(|text| !text.is_empty()) {
            None if self.quiet => EnvFilter::new(format!("warn,windlass={level}")),
            // What a node waits for matters to every command that runs one.
            None => EnvFilter::new(format!(
                "warn,windlass={level},{REPORTS}={}",
                level.max(LevelFilter::WARN)
            )),
            Some(text) => {
                let text = text.to_string_lossy();
                EnvFilter::try_new(&text).map_err(|e| {
                    Failure::Usage(format!(
                        "WINDLASS_LOG: '{text}' is not a filter ({e}); write it like windlass=debug"
                    ))
                })?
            }
        };
        let log = match self.log_format {
            LogFormat::Text => fmt::layer()
                .with_writer(std::io::stderr)
                .fmt_fields(format::debug_fn(write_field).delimited(" "))
                .with_ansi(self.colors(std::io::stderr().is_terminal()))
                .with_filter(filter)
                .boxed(),
            // A span's own fields are in the object `span`.
            LogFormat::Json => fmt::layer()
                .json()
                .flatten_event(true)
                .with_span_list(false)
                .with_writer(|| JsonLines)
                .with_filter(filter)
                .boxed(),
        };
        tracing_subscriber::registry().with(spans).with(log).init();
        Ok(())
    }

    /// Prints the failure that ended the program on standard error, in the format of the log.
    /// Returns the exit code.
    pub(crate) fn report(&self, failure: &Failure) -> Exit {
        match self.log_format {
            LogFormat::Text => failure.report(),
            LogFormat::Json => failure.report_json(),
        }
    }

    /// Returns whether to use colours on an output that is, or is not, a terminal.
    pub(crate) fn colors(&self, terminal: bool) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
                terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
            }
        }
    }

    /// Returns the maker of command lines for messages.
    pub(crate) fn hint(&self) -> Hint {
        Hint::new(self.store.as_deref().filter(|_| self.is_store_typed))
    }

    /// Returns the output of the program.
    pub(crate) fn out(&self) -> Output {
        let color = self.colors(std::io::stdout().is_terminal());
        Output::new(self.output, color, self.quiet)
    }
}

/// Writes a field of the log in text. A value with a line break stays on the line of its event.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> std::fmt::Result {
    let text = escaped(&format!("{value:?}"));
    match field.name() {
        "message" => writer.write_str(&text),
        // For the export of traces: the kind of the task once more.
        name if name.starts_with("otel.") => Ok(()),
        name if writer.has_ansi_escapes() => {
            write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{text}")
        }
        name => write!(writer, "{name}={text}"),
    }
}
