//! One request over HTTP/1.1, each on its own connection.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The seconds of `Retry-After`, if the answer has that header.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: String,
}

/// Sends a body to a path below a URL such as `http://127.0.0.1:8080`, and reads the whole answer.
///
/// # Errors
///
/// Those of the connection; [`io::ErrorKind::UnexpectedEof`] for an answer that is cut off. The outcome of the request is
/// not known then.
pub fn post(
    url: &str,
    path: &str,
    token: &str,
    body: &str,
    patience: Duration,
) -> io::Result<Answer> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{url}: {what}"));
    let rest = url
        .strip_prefix("http://")
        .ok_or_else(|| bad("is not an http URL"))?;
    let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let mut addresses = authority.to_socket_addrs()?;
    let address = addresses.next().ok_or_else(|| bad("has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    stream.set_nodelay(true)?;
    let prefix = prefix.trim_end_matches('/');
    let slash = if prefix.is_empty() { "" } else { "/" };
    let request = format!(
        "POST {slash}{prefix}{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    parse(&bytes).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Returns the answer; `None` when it is not whole.
fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let header = |wanted: &str| {
        let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let found = lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.trim())
    };
    let body = bytes.get(end + 4..)?;
    let body = match header("transfer-encoding") {
        Some(_) => chunks(body)?,
        None => {
            let length = header("content-length").map_or(Some(0), |text| text.parse().ok())?;
            body.get(..length)?.to_vec()
        }
    };
    let seconds = header("retry-after").and_then(|text| text.parse().ok());
    Some(Answer {
        status,
        retry_after: seconds.map(Duration::from_secs),
        body: String::from_utf8(body).ok()?,
    })
}

fn chunks(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = bytes.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&bytes[..line]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(line + 2..line + 2 + size)?);
        bytes = bytes.get(line + 4 + size..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_cut_off_is_none() {
        let whole =
            "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\nRetry-After: 3\r\n\r\n{}";
        let answer = parse(whole.as_bytes()).unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (429, "{}"));
        assert_eq!(answer.retry_after, Some(Duration::from_secs(3)));
        for end in 0..whole.len() {
            assert!(parse(&whole.as_bytes()[..end]).is_none(), "{end}");
        }
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n";
        let answer = parse(chunked.as_bytes()).unwrap();
        assert_eq!(answer.body, "{}");
        assert!(parse(&chunked.as_bytes()[..chunked.len() - 6]).is_none());
    }
}
