//! `windlass backup`: a copy of the whole store, while workers run.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    exit::{Exit, Failure},
    global::Global,
};

/// Where to write.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file is a store as it was at one moment; only its owner can read it. Workers and servers go on in the meantime. To
restore, stop every program that uses the store, move its files away together, put the backup in their place, and start
the first program with --use-copied: until then the backup accepts no tasks, commands and nodes, so that no task
runs in two stores. A store on etcd is backed up by etcdctl snapshot save.

Examples:
  windlass backup /backups/jobs-monday.db
  windlass list --store sqlite:/backups/jobs-monday.db
  windlass worker --store sqlite:/backups/jobs-monday.db --use-copied")]
pub(crate) struct Args {
    /// The file to make
    file: PathBuf,
}

/// A backup that was made.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Made<'a> {
    /// The file.
    file: &'a str,
    /// Its size in bytes.
    bytes: u64,
    /// When the backup began: it has every write that was acknowledged before.
    at: Timestamp,
}

/// Backs the store up.
pub(crate) async fn execute(args: Args, global: &Global) -> Result<Exit, Failure> {
    let client = global.reading().await?;
    let folder = args.file.parent().filter(|folder| folder.as_os_str() != "");
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(Failure::Store(format!(
            "could not create '{}': there is no folder '{}'; create it, or name another file",
            args.file.display(),
            folder.display()
        )));
    }
    let backup = client.store().transfer()?.backup(&args.file).await?;
    let file = args.file.display().to_string();
    let out = global.out();
    match out.is_json() {
        true => out.json(&Made {
            file: &file,
            bytes: backup.bytes,
            at: backup.at,
        })?,
        false => out.line(format!("backed up to '{file}': {} bytes", backup.bytes))?,
    }
    Ok(Exit::Ok)
}
