//! The stand-in servers: HTTP/1.1 with just what clients of the protocol send.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// The largest request that is read.
const MOST: usize = 16 << 20;

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    /// The number of the server that has got it.
    pub(super) server: usize,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) token: Option<String>,
    pub(super) body: Vec<u8>,
}

/// What a server does with a request.
#[derive(Debug)]
pub(super) enum Reply {
    /// Sends this status, these seconds of `Retry-After` and this body.
    Send(u16, Option<u64>, String),
    /// Closes the connection without an answer.
    Cut,
}

/// A server that runs until it is dropped: then its port is closed, and its connections are cut.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Server {
    /// Listens on this address; port 0 is any free one.
    pub(super) async fn start<F, R>(at: SocketAddr, number: usize, answer: F) -> io::Result<Self>
    where
        F: Fn(Request) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        let answer = Arc::new(answer);
        let accepting = tokio::spawn(async move {
            // Dropped with this task, and the connections with it.
            let mut connections = JoinSet::new();
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        connections.spawn(serve(stream, number, Arc::clone(&answer)));
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, accepting })
    }
}

/// Answers the requests of a connection until it ends.
async fn serve<F, R>(stream: TcpStream, number: usize, answer: Arc<F>)
where
    F: Fn(Request) -> R + Send + Sync + 'static,
    R: Future<Output = Reply> + Send + 'static,
{
    let mut stream = BufReader::new(stream);
    while let Ok(Some((mut request, closes))) = read(&mut stream).await {
        request.server = number;
        let Reply::Send(status, retry_after, body) = answer(request).await else {
            return;
        };
        let retry = retry_after.map_or_else(String::new, |s| format!("Retry-After: {s}\r\n"));
        let kind = match status {
            200..=299 => "application/json",
            _ => "application/problem+json",
        };
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {status} Scripted\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{retry}\r\n{body}"
        );
        let written = stream.get_mut().write_all(text.as_bytes()).await;
        if written.is_err() || closes {
            return;
        }
    }
}

/// Reads a request, and whether the connection closes after it; `None` at the end of the connection.
async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<(Request, bool)>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next(), words.next());
    let (Some(method), Some(path)) = (method, path) else {
        return Ok(None);
    };
    let (mut length, mut closes, mut token) = (0, false, None);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let line = line.trim_end();
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap_or(0),
            "connection" => closes = value.eq_ignore_ascii_case("close"),
            "authorization" => token = value.strip_prefix("Bearer ").map(str::to_owned),
            "expect" => {
                let go_on = b"HTTP/1.1 100 Continue\r\n\r\n";
                stream.get_mut().write_all(go_on).await?;
            }
            _ => {}
        }
    }
    if length > MOST {
        return Ok(None);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let request = Request {
        server: 0,
        method,
        path,
        token,
        body,
    };
    Ok(Some((request, closes)))
}
