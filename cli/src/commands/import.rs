//! `windlass import`: reads a file of `windlass export` into the store.

use std::{
    fs::File,
    io::{self, BufRead as _},
    path::{Path, PathBuf},
};

use indicatif::ProgressBar;
use tempfile::NamedTempFile;
use windlass::store::{
    Error,
    copy::{FileError, check_file},
};

use super::copy;
use crate::{
    exit::{Exit, Failure},
    global::Global,
};

/// The file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The store is new, or has no tasks and no nodes. Every line is checked before the first task is written, and every
task is read back and compared. Started again, an interrupted import goes on.

Examples:
  windlass import --store sqlite:new.db tasks.jsonl
  gunzip -c tasks.jsonl.gz | windlass import --store etcd://10.0.0.1:2379/jobs -")]
pub(crate) struct Args {
    /// The file that `windlass export` has written; - for standard input
    file: String,
}

/// Imports.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let file = Input::of(&args.file)?;
    // A refused file makes no store.
    check_file(file.path()).map_err(|error| failure(&args.file, error))?;
    let client = global.lasting().await?;
    let out = global.out();
    let mut bar: Option<ProgressBar> = None;
    let report = client
        .store()
        .import(file.path(), |now| {
            let bar = bar.get_or_insert_with(|| out.progress(now.tasks, "import"));
            bar.set_position(now.done);
        })
        .await;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let report = report.map_err(|error| failure(&args.file, error))?;
    copy::show_import(&out, &report)?;
    Ok(if report.is_whole() {
        Exit::Ok
    } else {
        Exit::No
    })
}

/// A file that is read several times.
enum Input {
    File(PathBuf),
    /// What came from standard input.
    Kept(NamedTempFile),
}

impl Input {
    fn of(path: &str) -> Result<Self, Failure> {
        if path != "-" {
            let found = std::fs::metadata(path).map_err(|e| Failure::file(path, &e))?;
            if !found.is_file() {
                let reason = "is no regular file; name one, or - for standard input";
                return Err(Failure::Usage(format!("file: '{path}' {reason}")));
            }
            return Ok(Self::File(path.into()));
        }
        let keep = || {
            let mut from = io::stdin().lock();
            // What is no export is not kept first: it may have no end.
            let first = from.fill_buf()?;
            if !(first.is_empty() || first.starts_with(b"{\"windlass\"")) {
                return Err(io::Error::other(
                    "it is no file of `windlass export`; nothing was written",
                ));
            }
            let kept = NamedTempFile::new()?;
            let mut to: &File = kept.as_file();
            io::copy(&mut from, &mut to)?;
            Ok(kept)
        };
        let kept = keep().map_err(|e| Failure::file("could not keep standard input", &e))?;
        Ok(Self::Kept(kept))
    }

    fn path(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Kept(file) => file.path(),
        }
    }
}

fn failure(file: &str, error: FileError) -> Failure {
    match error {
        FileError::Store(Error::Invalid(busy)) if busy.field() == "to" => Failure::No(format!(
            "store: {}",
            busy.to_string().trim_start_matches("to: ")
        )),
        FileError::Store(error) => error.into(),
        error @ FileError::NotEmpty { .. } => Failure::No(format!("nothing was written: {error}")),
        error => Failure::Usage(format!("'{file}': {error}; nothing was written")),
    }
}
