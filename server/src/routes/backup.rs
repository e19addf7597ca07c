//! A backup of the store, as the answer to a request.
//!
//! It is written to a file next to the store's and sent from there: a stream from the store itself would keep its log from
//! being shortened as long as the slowest client reads. The disk cannot fill with such files: a server makes one at a time
//! and until it is sent, the store refuses one for which there is no room, and the file loses its name before the first
//! byte is sent, so that it is gone with this process.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use futures::stream;
use tokio::{sync::OwnedSemaphorePermit, task::spawn_blocking};
use windlass::store::Error;

use crate::{access::Admin, app::App, guard, params::Params, problem::Problem};

/// How much is read from the file at once.
const PIECE: usize = 256 << 10;
/// What the name of the file adds to the store's.
const ENDING: &str = ".download";

/// Returns a backup.
pub(super) async fn download(
    State(app): State<Arc<App>>,
    by: Admin,
    head: Parts,
    params: Params,
) -> Result<Response, Problem> {
    if head.method == Method::HEAD {
        // It would make a backup to say how large it is.
        return Err(guard::no_method(head.method).await);
    }
    if by.is_proven_by_browser() {
        // A page of another origin may open this address with the cookies of ours.
        crate::origin::check_same_origin(&head)?;
    }
    params.end()?;
    by.check_unscoped()?;
    if !by.hiding().await?.is_nothing() {
        let what =
            "would have the values that are masked; use `windlass backup` where the store is";
        return Err(Problem::masked("backup", what));
    }
    let place = app.backups.clone().try_acquire_owned().map_err(|_| {
        let detail = "this server makes or sends another backup; wait until it is complete";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).retry_after(5)
    })?;
    let transfer = app.store.transfer()?;
    // A store that is no file answers what to do instead.
    let path = transfer.file().map(beside).unwrap_or_default();
    let backup = transfer.backup(&path).await?;
    let opened = spawn_blocking(move || nameless(&path)).await;
    let file = opened
        .map_err(|e| unreadable(&e))?
        .map_err(|e| unreadable(&e))?;
    let sending = Sending {
        file: Some(file),
        app,
        by,
        _place: place,
    };
    let pieces = stream::unfold(sending, |mut sending| async move {
        let piece = sending.next().await?;
        Some((piece, sending))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/vnd.sqlite3".to_owned()),
        (header::CONTENT_LENGTH, backup.bytes.to_string()),
        (
            header::CONTENT_DISPOSITION,
            "attachment; filename=\"windlass-backup.db\"".to_owned(),
        ),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

fn beside(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    // No other file has it.
    name.push(format!(".{}{ENDING}", uuid::Uuid::now_v7()));
    name.into()
}

/// Opens a file and removes its name.
fn nameless(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

fn unreadable(error: &dyn std::fmt::Display) -> Problem {
    Error::unavailable("read the backup", error.to_string()).into()
}

/// A backup that is sent.
struct Sending {
    /// `None` after the end.
    file: Option<File>,
    app: Arc<App>,
    by: Admin,
    _place: OwnedSemaphorePermit,
}

impl Sending {
    /// Reads the next piece; `None` after the last.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let mut file = self.file.take()?;
        // The token may have been revoked since the request began.
        if self.app.keyring.now(self.by.caller()).is_err() {
            return Some(Err(io::Error::other("the token is no longer valid")));
        }
        if !self
            .by
            .hiding()
            .await
            .is_ok_and(|hiding| hiding.is_nothing())
        {
            return Some(Err(io::Error::other("values are masked now")));
        }
        let read = spawn_blocking(move || {
            let mut piece = vec![0; PIECE];
            let read = file.read(&mut piece)?;
            piece.truncate(read);
            Ok((piece, file))
        });
        match read.await.map_err(io::Error::other).flatten() {
            Ok((piece, _)) if piece.is_empty() => None,
            Ok((piece, file)) => {
                self.file = Some(file);
                Some(Ok(piece.into()))
            }
            Err(error) => Some(Err(error)),
        }
    }
}
