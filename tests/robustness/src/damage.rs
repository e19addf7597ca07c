//! Damages the stored state of a task without its store, and repairs it.

use std::path::PathBuf;

use rusqlite::Connection;
use windlass::TaskId;
use windlass_etcd_cluster::gateway::Gateway;

use crate::{BoxError, cluster::NAMESPACE, scene::Scene};

/// A text that is not a state.
const GARBAGE: &str = "{\"state\":\"dancing\"";

/// Reaches the stored states without windlass.
#[derive(Debug)]
pub enum Backdoor {
    /// The file of a SQLite store.
    File(PathBuf),
    /// A member of etcd.
    Etcd(Gateway),
}

/// A state that was damaged, and what was there before.
#[derive(Debug)]
pub struct Damaged {
    /// Its task.
    pub task: TaskId,
    was: String,
}

impl Backdoor {
    /// The way to the states of a scene on one file or on etcd.
    pub fn of(scene: &Scene) -> Self {
        match &scene.etcd {
            Some(etcd) => Self::Etcd(etcd.cluster.gateway(0)),
            None => Self::File(scene.site.file()),
        }
    }

    /// Makes the state of a task unreadable.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be reached.
    pub fn damage(&self, task: &TaskId) -> Result<Damaged, BoxError> {
        let was = self.read(task)?;
        self.write(task, GARBAGE)?;
        Ok(Damaged {
            task: task.clone(),
            was,
        })
    }

    /// Puts the state back that was there before.
    ///
    /// # Errors
    ///
    /// When it cannot be reached.
    pub fn repair(&self, damaged: &Damaged) -> Result<(), BoxError> {
        self.write(&damaged.task, &damaged.was)
    }

    fn read(&self, task: &TaskId) -> Result<String, BoxError> {
        match self {
            Self::File(file) => {
                let text = connect(file)?.query_row(
                    "SELECT state FROM windlass_states WHERE n = (SELECT n FROM windlass_tasks WHERE id = ?1)",
                    [task.as_str()],
                    |row| row.get(0),
                )?;
                Ok(text)
            }
            Self::Etcd(gateway) => {
                let value = gateway.get(&key(task))?;
                let value = value.ok_or_else(|| format!("{task} has no state"))?;
                Ok(String::from_utf8(value)?)
            }
        }
    }

    fn write(&self, task: &TaskId, text: &str) -> Result<(), BoxError> {
        match self {
            Self::File(file) => {
                let changed = connect(file)?.execute(
                    "UPDATE windlass_states SET state = ?2 WHERE n = (SELECT n FROM windlass_tasks WHERE id = ?1)",
                    [task.as_str(), text],
                )?;
                match changed {
                    1 => Ok(()),
                    _ => Err(format!("{task} has no state").into()),
                }
            }
            Self::Etcd(gateway) => gateway.put(&key(task), text.as_bytes()),
        }
    }
}

fn connect(file: &PathBuf) -> Result<Connection, BoxError> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    Ok(connection)
}

fn key(task: &TaskId) -> String {
    format!("/{NAMESPACE}/state/{task}")
}
