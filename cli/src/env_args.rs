//! [`EnvArgs`]: the options that name files with variables for commands.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use windlass::Invalid;

/// Which files.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub(crate) struct EnvArgs {
    /// Read variables of the commands from this file of NAME=VALUE lines. Each attempt reads the
    /// file; values are not stored
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,

    /// Set a variable of the commands to the content of a file (a secret). Each attempt reads the file;
    /// the value is not stored
    #[arg(long, value_name = "NAME=FILE", value_parser = named_file)]
    env_from: Vec<(String, PathBuf)>,
}

fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), file.into()))
        }
        _ => Err(format!(
            "'{text}' names no file; write it like TOKEN=/run/secrets/token"
        )),
    }
}

impl EnvArgs {
    /// Returns whether no file is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.env_file.is_none() && self.env_from.is_empty()
    }

    /// Sets the files in the props of a command, even if the props name others.
    ///
    /// # Errors
    ///
    /// The errors of [`add_to`](Self::add_to).
    pub(crate) fn set_in(&self, props: &mut Map<String, Value>) -> Result<(), Invalid> {
        if self.env_file.is_some() {
            props.remove("env_file");
        }
        if let Some(files) = props
            .get_mut("env_from_file")
            .and_then(Value::as_object_mut)
        {
            files.retain(|name, _| self.env_from.iter().all(|(given, _)| given != name));
        }
        self.add_to(props)
    }

    /// Adds the files to the props of a command, unless the props name them.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for a file whose absolute path is not text.
    pub(crate) fn add_to(&self, props: &mut Map<String, Value>) -> Result<(), Invalid> {
        if let Some(file) = &self.env_file
            && !props.contains_key("env_file")
        {
            props.insert("env_file".to_owned(), json!(absolute("--env-file", file)?));
        }
        if self.env_from.is_empty() {
            return Ok(());
        }
        let files = props.entry("env_from_file").or_insert_with(|| json!({}));
        // A value that is not an object is reported as an error of the props.
        if let Some(files) = files.as_object_mut() {
            for (name, file) in &self.env_from {
                let file = absolute("--env-from", file)?;
                files.entry(name.as_str()).or_insert_with(|| json!(file));
            }
        }
        Ok(())
    }
}

/// Returns the absolute path, because the worker runs in another folder.
///
/// # Errors
///
/// [`Invalid`] for an absolute path that is not text.
pub(crate) fn absolute(field: &'static str, path: &Path) -> Result<String, Invalid> {
    let path = std::path::absolute(path).map_err(|e| Invalid::new(field, e.to_string()))?;
    path.into_os_string()
        .into_string()
        .map_err(|_| Invalid::new(field, "the path is not UTF-8; rename the file"))
}
