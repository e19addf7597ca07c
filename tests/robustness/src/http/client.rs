//! [`Client`]: a client that repeats a request until it is answered. Each request has its own connection.

use std::{io, net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::BoxError;

/// How long a client waits for one answer before it sends the request again.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a client repeats a request.
const BOUND: Duration = Duration::from_secs(60);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(15);

/// A client of the servers at the other end of a line.
#[derive(Debug, Clone)]
pub struct Client {
    line: SocketAddr,
    token: String,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// The method and the path.
    pub line: &'a str,
    /// A further header with its value.
    pub header: Option<(&'a str, &'a str)>,
    /// The body.
    pub body: String,
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl Answer {
    /// Returns the body as JSON.
    ///
    /// # Errors
    ///
    /// When it is no JSON.
    pub fn json(&self) -> Result<Value, BoxError> {
        serde_json::from_str(&self.body).map_err(|e| format!("{e}: {}", self.body).into())
    }
}

impl Client {
    /// Makes a client with a token.
    pub fn new(line: SocketAddr, token: impl Into<String>) -> Self {
        let token = token.into();
        Self { line, token }
    }

    /// Sends a request until it has a whole answer that is not about a server that cannot work now.
    ///
    /// # Errors
    ///
    /// When a minute has passed.
    pub async fn until_answered(&self, ask: &Ask<'_>) -> Result<Answer, BoxError> {
        let begun = Instant::now();
        let mut last = String::new();
        while begun.elapsed() < BOUND {
            match timeout(PATIENCE, self.once(ask)).await {
                Ok(Ok(answer)) if !matches!(answer.status, 429 | 503) => return Ok(answer),
                Ok(Ok(answer)) => last = answer.body,
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => last = "no answer in time".to_owned(),
            }
            sleep(PAUSE).await;
        }
        Err(format!("{} has no answer within a minute: {last}", ask.line).into())
    }

    /// Sends a request once, and reads a whole answer.
    async fn once(&self, ask: &Ask<'_>) -> io::Result<Answer> {
        let mut stream = self.send(ask).await?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await?;
        whole(&bytes).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Sends a request, and returns the connection.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub async fn send(&self, ask: &Ask<'_>) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.line).await?;
        let header = match ask.header {
            Some((name, value)) => format!("{name}: {value}\r\n"),
            None => String::new(),
        };
        let request = format!(
            "{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\
             {header}\r\n{}",
            ask.line,
            self.token,
            ask.body.len(),
            ask.body
        );
        stream.write_all(request.as_bytes()).await?;
        Ok(stream)
    }
}

/// Returns the head of a message and where its body begins.
pub(super) fn head(bytes: &[u8]) -> Option<(&str, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    Some((std::str::from_utf8(bytes.get(..end)?).ok()?, end))
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
    Some(found?.1.trim())
}

/// Returns where a message with a length ends; `None` while its head is not complete.
pub(super) fn end_of(bytes: &[u8]) -> Option<usize> {
    let (head, begin) = head(bytes)?;
    let length = field(head, "content-length").and_then(|length| length.parse().ok());
    Some(begin + length.unwrap_or(0usize))
}

/// Reads an answer; `None` for one that is not whole.
fn whole(bytes: &[u8]) -> Option<Answer> {
    let (head, begin) = head(bytes)?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = bytes.get(begin..)?;
    let body = match field(head, "transfer-encoding") {
        Some(_) => match chunks(body) {
            (body, true) => body,
            _ => return None,
        },
        None => bytes.get(begin..end_of(bytes)?)?.to_vec(),
    };
    let body = String::from_utf8(body).ok()?;
    Some(Answer { status, body })
}

/// Returns what the chunks that have arrived carry, and whether the last one is among them.
pub(super) fn chunks(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(line) = bytes.windows(2).position(|two| two == b"\r\n") else {
            return (body, false);
        };
        let size = std::str::from_utf8(&bytes[..line]).unwrap_or_default();
        let Ok(size) = usize::from_str_radix(size, 16) else {
            return (body, false);
        };
        let Some(chunk) = bytes.get(line + 2..line + 2 + size) else {
            return (body, false);
        };
        if size == 0 {
            return (body, true);
        }
        body.extend_from_slice(chunk);
        bytes = bytes.get(line + 4 + size..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_was_cut_is_none() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd";
        for cut in 0..text.len() {
            assert!(whole(&text[..cut]).is_none(), "{cut}");
        }
        assert_eq!(
            whole(text).map(|answer| answer.body).as_deref(),
            Some("abcd")
        );
        let text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n1\r\ne\r\n0\r\n\r\n";
        for cut in 0..text.len() - 2 {
            assert!(whole(&text[..cut]).is_none(), "{cut}");
        }
        assert_eq!(
            whole(text).map(|answer| answer.body).as_deref(),
            Some("abcde")
        );
    }
}
