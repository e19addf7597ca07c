//! A light client of HTTP/1.1: it writes requests that are made once, and reads of an answer only its status and its
//! length. It shares the processors with the server that it measures.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A connection that is kept.
pub(crate) struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

/// Makes the bytes of a request.
pub(crate) fn request(token: &str, line: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: {kind}\r\n\
         content-length: {length}\r\n\r\n"
    );
    (head + body).into_bytes()
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|part| part == what)
}

impl Wire {
    pub(crate) async fn to(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let read = Vec::with_capacity(16 << 10);
        Self { stream, read }
    }

    /// Sends a request, and reads its answer, which must be a success. Returns the length of the body.
    pub(crate) async fn call(&mut self, request: &[u8]) -> usize {
        self.send(request).await;
        let head = self.head().await;
        let length = b"content-length: ";
        let Some(at) = find(&self.read[..head], length) else {
            return self.chunks(head).await;
        };
        let digits = self.read[at + length.len()..].iter();
        let digits = digits.take_while(|b| b.is_ascii_digit());
        let length = digits.fold(0, |all, digit| all * 10 + usize::from(digit - b'0'));
        while self.read.len() < head + length {
            self.more().await;
        }
        self.read.drain(..head + length);
        length
    }

    /// Sends a request, and returns the body of its answer, which must be a success with a length.
    pub(crate) async fn body(&mut self, request: &[u8]) -> Vec<u8> {
        self.send(request).await;
        let head = self.head().await;
        let length = b"content-length: ";
        let at = find(&self.read[..head], length).expect("an answer with a length");
        let digits = self.read[at + length.len()..].iter();
        let digits = digits.take_while(|b| b.is_ascii_digit());
        let length = digits.fold(0, |all, digit| all * 10 + usize::from(digit - b'0'));
        while self.read.len() < head + length {
            self.more().await;
        }
        let mut answer: Vec<u8> = self.read.drain(..head + length).collect();
        answer.split_off(head)
    }

    pub(crate) async fn send(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.unwrap();
    }

    /// Reads the head of an answer, and returns where it ends.
    async fn head(&mut self) -> usize {
        loop {
            if let Some(end) = find(&self.read, b"\r\n\r\n") {
                let is_good = self.read.starts_with(b"HTTP/1.1 2");
                assert!(is_good, "{}", String::from_utf8_lossy(&self.read));
                return end + 4;
            }
            self.more().await;
        }
    }

    async fn more(&mut self) {
        let read = self.stream.read_buf(&mut self.read).await.unwrap();
        assert!(read > 0, "the server has closed the connection");
    }

    /// Reads a body without a length to its last chunk.
    async fn chunks(&mut self, head: usize) -> usize {
        self.read.drain(..head);
        let mut all = 0;
        while !self.read.ends_with(b"\r\n0\r\n\r\n") && self.read != b"0\r\n\r\n" {
            // What was counted is not looked at again.
            let keep = self.read.len().saturating_sub(8);
            all += keep;
            self.read.drain(..keep);
            self.more().await;
        }
        all += self.read.len();
        self.read.clear();
        all
    }

    /// Reads a stream of events until this text has come in full.
    pub(crate) async fn until(&mut self, text: &[u8]) {
        while find(&self.read, text).is_none() {
            let keep = self.read.len().saturating_sub(text.len());
            self.read.drain(..keep);
            self.more().await;
        }
        self.read.clear();
    }
}
