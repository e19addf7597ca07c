//! [`Recorder`]: writes the output of a command to its log in the background, without blocking the runtime.

use std::time::Duration;

use tokio::{
    sync::mpsc,
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};
use tracing::warn;

use super::writer::{Piece, Writer};

/// How many pieces may wait for a slow disk. Beyond that the command waits, as it would for a file.
const QUEUE: usize = 16;
/// How long the end of a command waits for the disk.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// Writes the log of a run in the background.
#[derive(Debug)]
pub(crate) struct Recorder {
    pieces: mpsc::Sender<Piece>,
    writing: JoinHandle<()>,
}

impl Recorder {
    /// Starts the recorder. Nothing is written before the first piece.
    pub(crate) fn start(writer: Writer) -> Self {
        let (pieces, queue) = mpsc::channel(QUEUE);
        let writing = tokio::spawn(work(writer, queue));
        Self { pieces, writing }
    }

    /// Returns the channel for the pieces.
    pub(crate) fn sender(&self) -> mpsc::Sender<Piece> {
        self.pieces.clone()
    }

    /// Waits until all sent pieces are written. Every other sender must be dropped, or be about to.
    pub(crate) async fn finish(self) {
        drop(self.pieces);
        if timeout(LAST_WRITE, self.writing).await.is_err() {
            warn!("could not write the log of a command to the disk; its end may be missing");
        }
    }
}

async fn work(mut writer: Writer, mut queue: mpsc::Receiver<Piece>) {
    let mut pieces = Vec::with_capacity(QUEUE);
    while queue.recv_many(&mut pieces, QUEUE).await > 0 {
        let written = spawn_blocking(move || {
            writer.write(&pieces);
            pieces.clear();
            (writer, pieces)
        });
        // The writer does not panic, and a runtime that ends accepts nothing more.
        let Ok(back) = written.await else { return };
        (writer, pieces) = back;
    }
    if writer.has_begun() {
        let _ = spawn_blocking(move || writer.end()).await;
    }
}
