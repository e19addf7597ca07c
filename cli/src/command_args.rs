//! [`CommandArgs`]: a command of the operating system, as words and options of a command line.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use windlass::Invalid;

use crate::{
    env_args::{EnvArgs, absolute},
    exec,
};

/// The command, its folder and its variables.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(crate) struct CommandArgs {
    /// Run this line with a shell (/bin/sh -c) instead of COMMAND
    #[arg(long, value_name = "LINE", conflicts_with_all = ["props", "command"])]
    shell: Option<String>,

    /// Run the command in this folder of the worker's machine; the worker's own folder by default. A
    /// relative path starts at the current folder
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    #[command(flatten)]
    env: EnvArgs,

    /// The command to run: a program and its arguments, without a shell
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "props")]
    command: Vec<String>,
}

impl CommandArgs {
    /// Returns whether there is a command.
    pub(crate) fn is_given(&self) -> bool {
        self.shell.is_some() || !self.command.is_empty()
    }

    /// Returns the props of the command that is given, without its folder and its variables.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for the path of a folder.
    pub(crate) fn props(&self) -> Result<Option<Value>, Invalid> {
        Ok(match (&self.shell, self.command.as_slice()) {
            (Some(line), _) => Some(json!({ "shell": line })),
            (None, [program, args @ ..]) => {
                let at = self.cwd.as_deref().unwrap_or(Path::new("")).join(program);
                // A name without '/' is searched in PATH.
                if program.contains('/') && at.is_dir() {
                    let reason = format!("'{program}' is a folder; give the program to run");
                    return Err(Invalid::new("command", reason));
                }
                Some(json!({ "command": program, "args": args }))
            }
            (None, []) => None,
        })
    }

    /// Returns whether a folder or a file of variables is given.
    pub(crate) fn has_place(&self) -> bool {
        self.cwd.is_some() || !self.env.is_empty()
    }

    /// Sets the folder and the files of variables in the props of a command, even if the props name
    /// others.
    ///
    /// # Errors
    ///
    /// [`Invalid`] for a path that is not text, and for a variable with two files.
    pub(crate) fn set_in(&self, props: &mut Map<String, Value>) -> Result<(), Invalid> {
        if self.cwd.is_some() {
            props.remove("cwd");
        }
        self.add_cwd(props)?;
        self.env.set_in(props)
    }

    /// Adds the folder and the files of variables to the props of a command, unless the props name
    /// them.
    ///
    /// # Errors
    ///
    /// The errors of [`set_in`](Self::set_in).
    pub(crate) fn add_to(&self, props: &mut Map<String, Value>) -> Result<(), Invalid> {
        self.add_cwd(props)?;
        self.env.add_to(props)
    }

    fn add_cwd(&self, props: &mut Map<String, Value>) -> Result<(), Invalid> {
        if let Some(cwd) = &self.cwd
            && !props.contains_key("cwd")
        {
            props.insert("cwd".to_owned(), absolute("--cwd", cwd)?.into());
        }
        Ok(())
    }

    /// Rejects the options of commands for tasks of another kind. `what` names the tasks.
    ///
    /// # Errors
    ///
    /// [`Invalid`] that names the options.
    pub(crate) fn check_kind(&self, what: &str, kind: &str) -> Result<(), Invalid> {
        let field = match (self.is_given(), self.has_place()) {
            _ if exec::KINDS.contains(&kind) => return Ok(()),
            (true, _) => "-- COMMAND or --shell",
            (false, true) => "--cwd, --env-file or --env-from",
            (false, false) => return Ok(()),
        };
        let reason =
            format!("is for commands, which {what} of kind '{kind}' are not; leave it out");
        Err(Invalid::new(field, reason))
    }
}
