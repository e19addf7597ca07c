//! `windlass`: durable tasks from the command line.
//!
//! | module | what |
//! |---|---|
//! | `args` | the command line: its commands, and what each of them runs |
//! | `parse` | parsers of durations, sizes, times, priorities and labels |
//! | `global` | the options of every command: store, output, colours, log |
//! | `opening` | opens the store that the options name |
//! | `exit` | the exit codes, and the errors that lead to them |
//! | `output` | tables, JSON, notes, progress bars |
//! | `hint` | the command lines that messages print, quoted for a shell |
//! | `text` | text without control characters |
//! | `select` | selects tasks: ids or filters, dry run, confirmation |
//! | `bulk` | an action on many tasks, and its outcomes |
//! | `remedy` | what to do about an error or a finding of the library, as commands and options |
//! | `waiting` | waiting with a time limit, also for an unavailable store |
//! | `input`, `line` | reading JSON from arguments, files and standard input; tasks as JSON lines |
//! | `view` | rows of tables, and the texts of a task |
//! | `commands` | a file per command |
//! | `schemas` | tests only: the JSON Schemas of what the program reads and prints, and `docs/reference/json.md` |
//! | `config` | settings from a file, as defaults of the options |
//! | `balancing` | the balancer of a node, from its option |
//! | `command_args` | a command as words and options |
//! | `env_args` | the options that name files with variables for commands |
//!
//! The kind `exec` with its logs and its supervisor is the crate `windlass-exec`.

mod args;
mod balancing;
mod bulk;
mod changed_props;
mod command_args;
mod commands;
mod config;
mod dependents;
mod env_args;
mod exit;
mod filters;
mod flag_values;
mod global;
mod help;
mod hint;
mod http;
mod input;
mod kept;
mod layout;
mod line;
mod metrics;
mod missed;
mod moment;
mod opening;
mod order;
mod other_words;
mod output;
mod pairs;
mod parse;
mod remedy;
#[cfg(test)]
mod schemas;
mod select;
mod serving;
mod text;
mod traces;
mod use_copied;
mod view;
mod waiting;

use std::process::ExitCode;

use clap::CommandFactory;
use tracing_subscriber::filter::LevelFilter;
use windlass_exec::{
    self as exec, hash,
    inherited::Inherited,
    logs,
    supervisor::{self, Role},
};

use crate::{
    args::{Cli, Command},
    commands::{candidates, reference},
    exit::{Exit, Failure},
};

/// Runs the program with the arguments of this process, and returns its exit code. It is a library
/// function so that tests of other packages can start real `windlass` processes.
pub fn main() -> ExitCode {
    // Before anything is opened, and before a thread or a process is started.
    let inherited = Inherited::keep();
    if std::env::args_os().skip(1).eq([reference::WORD]) {
        let printed = reference::execute(Cli::command());
        return printed.unwrap_or_else(|failure| failure.report()).into();
    }
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == candidates::WORD)
    {
        let words = std::env::args_os().skip(2);
        let words: Vec<String> = words.map(|w| w.to_string_lossy().into_owned()).collect();
        candidates::execute(&Cli::command(), &words);
        return ExitCode::SUCCESS;
    }
    let mut cli = match Cli::read() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let traces = match cli.command {
        Command::Worker(_) | Command::Run(_) => traces::Traces::prepare(),
        _ => Ok(None),
    };
    let (traces, spans) = match traces {
        Ok(traces) => traces.unzip(),
        Err(failure) => return cli.global.report(&failure).into(),
    };
    let level = match cli.command {
        // A worker keeps running, and only its log shows what it does.
        Command::Worker(_) | Command::Serve(_) => LevelFilter::INFO,
        // The error line says what is wrong.
        _ => LevelFilter::ERROR,
    };
    if let Err(failure) = cli.global.log(level, spans) {
        return cli.global.report(&failure).into();
    }
    inherited.warn();
    if let Some(node) = cli.command.node() {
        // A worker gets the files from its supervisor, and keeps all but the named ones from its commands.
        let files = |e| {
            Failure::Store(format!(
                "could not change which open files commands get: {e}"
            ))
        };
        let passed = inherited.pass_all().map_err(files);
        if let Err(failure) = node.check_files(&inherited).and(passed) {
            return cli.global.report(&failure).into();
        }
        match supervisor::enter(node.grace) {
            Role::Worker(link) => cli.global.link = link,
            Role::Supervisor(code) => return code,
        }
        if let Err(failure) = inherited.keep_but(&node.inherit_fd).map_err(files) {
            return cli.global.report(&failure).into();
        }
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(e) => {
            let failure = Failure::Store(format!("the async runtime did not start: {e}"));
            return cli.global.report(&failure).into();
        }
    };
    let exit = runtime
        .block_on(async {
            outlive_file_limits();
            match &traces {
                Some(traces) => traces.begin()?,
                None if matches!(cli.command, Command::Worker(_)) => traces::note_missing(),
                None => {}
            }
            cli.command.execute(&cli.global).await
        })
        .unwrap_or_else(|failure| cli.global.report(&failure));
    if let Some(traces) = traces {
        traces.end();
    }
    // Background work (a read of standard input, say) must not delay the exit.
    runtime.shutdown_background();
    exit.into()
}

/// Makes a write beyond the limit of the file size (`ulimit -f`) fail with an error. Without a handler the signal
/// would end the program, even after it has acknowledged a write.
fn outlive_file_limits() {
    let number = nix::sys::signal::Signal::SIGXFSZ as i32;
    let kind = tokio::signal::unix::SignalKind::from_raw(number);
    // The handler stays when the stream of signals is dropped.
    if let Err(error) = tokio::signal::unix::signal(kind) {
        tracing::debug!(%error, "a write past the limit of the size of files ends the program");
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
