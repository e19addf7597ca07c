//! [`Global`]: the options that every command takes.

use std::io::IsTerminal;

use clap::{ArgAction, ValueEnum};
use tracing_subscriber::EnvFilter;
use windlass::{Client, store::Store};

use crate::{
    exit::Failure,
    output::{Format, Output},
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

/// The options of every command.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Where the tasks are kept: sqlite:PATH, or memory: (gone when the program ends) [default: the
    /// file windlass.db in your data directory]
    #[arg(long, global = true, env = "WINDLASS_STORE", value_name = "URL")]
    pub(crate) store: Option<String>,

    /// How to print what is asked for
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

    /// Print no notes and no progress, only what is asked for and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Log to standard error; twice for more (WINDLASS_LOG takes a filter, such as windlass=debug)
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl Global {
    /// Begins to log to standard error: what `WINDLASS_LOG` says, or as loud as `-v` and `-q` ask.
    /// What stays tells what it does unasked.
    pub(crate) fn log(&self, stays: bool) {
        let level = match (self.quiet, self.verbose + u8::from(stays)) {
            (true, _) => "error",
            (_, 0) => "warn",
            (_, 1) => "info",
            (_, 2) => "debug",
            _ => "trace",
        };
        let filter = EnvFilter::try_from_env("WINDLASS_LOG")
            .unwrap_or_else(|_| EnvFilter::new(format!("warn,windlass={level}")));
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(self.colors(std::io::stderr().is_terminal()))
            .init();
    }

    /// Whether to use colours on something that is, or is not, a terminal.
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

    /// The URL of the store that is meant.
    ///
    /// # Errors
    ///
    /// When the default file has no place.
    pub(crate) fn store_url(&self) -> Result<String, Failure> {
        if let Some(url) = &self.store {
            return Ok(url.clone());
        }
        let Some(dirs) = directories::ProjectDirs::from("", "", "windlass") else {
            let text = "store: you have no home directory; give --store sqlite:PATH";
            return Err(Failure::Usage(text.into()));
        };
        let dir = dirs.data_dir();
        std::fs::create_dir_all(dir).map_err(|e| {
            let dir = dir.display();
            Failure::Store(format!(
                "store: the folder {dir} cannot be made: {e}; give --store sqlite:PATH"
            ))
        })?;
        Ok(format!("sqlite:{}", dir.join("windlass.db").display()))
    }

    /// Opens the store.
    ///
    /// # Errors
    ///
    /// When it cannot be opened; the error says why.
    pub(crate) async fn open(&self) -> Result<Store, Failure> {
        Ok(Store::open(&self.store_url()?).await?)
    }

    /// Opens the store and answers a client of it.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        Ok(Client::new(&self.open().await?))
    }

    /// Where to print.
    pub(crate) fn out(&self) -> Output {
        Output::new(self)
    }
}
