//! [`Tls`]: the certificate of a server, read again when its files change.

use std::{
    fs, io,
    path::Path,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::{CryptoProvider, ring},
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
    },
    server::TlsStream,
};
use tokio_util::sync::CancellationToken;
use windlass::store::Error;

use crate::settings::TlsFiles;

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(5);
/// The most bytes of a file.
const LARGEST: u64 = 1 << 20;

/// What tells a file from the same one after a change.
type Stamp = [Option<(SystemTime, u64)>; 2];

/// Agrees on TLS with clients.
pub(super) struct Tls {
    acceptor: TlsAcceptor,
    current: Arc<Current>,
    files: TlsFiles,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// The certificate that new connections are shown.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(current.clone())
    }
}

impl Tls {
    /// Reads the files of a certificate.
    pub(super) fn read(files: TlsFiles) -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        let key = certified(&files, &provider).map_err(Error::Unusable)?;
        let current = Arc::new(Current(RwLock::new(Arc::new(key))));
        let unusable = |error: rustls::Error| Error::Unusable(format!("TLS: {error}"));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            current,
            files,
        })
    }

    pub(super) async fn agree<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        self.acceptor.accept(stream).await
    }

    /// Reads the files again when they change, until the server stops. New connections are shown the new certificate; one
    /// that cannot be read leaves the present one in place.
    pub(super) async fn follow(self: Arc<Self>, stop: CancellationToken) {
        let mut seen = stamp(&self.files);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            let now = stamp(&self.files);
            if now != seen {
                self.reload();
                seen = now;
            }
        }
    }

    fn reload(&self) {
        let provider = self.acceptor.config().crypto_provider();
        match certified(&self.files, provider) {
            Ok(key) => {
                let mut current = self.current.0.write();
                **current.as_mut().unwrap_or_else(|e| e.get_mut()) = Arc::new(key);
                tracing::info!(certificate = %self.files.certificate.display(), "the certificate was read again");
            }
            Err(error) => {
                tracing::warn!(error, "the certificate stays the one before");
            }
        }
    }
}

fn stamp(files: &TlsFiles) -> Stamp {
    [&files.certificate, &files.key].map(|path| {
        let found = fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    })
}

/// Reads a certificate with its key, and compares them.
fn certified(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let named = |path: &Path, what: &str, why: String| {
        format!(
            "TLS: file {} has no {what} that can be used: {why}",
            path.display()
        )
    };
    for path in [&files.certificate, &files.key] {
        // A pipe would be waited for.
        let is_fit = fs::metadata(path).map(|found| found.is_file() && found.len() <= LARGEST);
        if is_fit.is_ok_and(|is_fit| !is_fit) {
            return Err(format!(
                "TLS: {} is no file, or has more than 1 MiB; give a PEM file",
                path.display()
            ));
        }
    }
    let no_certificate = |error: String| named(&files.certificate, "certificate", error);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(&files.certificate)
        .map_err(|error| no_certificate(error.to_string()))?
        .collect();
    let chain = chain.map_err(|error| no_certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(no_certificate("it has no PEM block CERTIFICATE".to_owned()));
    }
    let no_key = |error: String| named(&files.key, "private key", error);
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| no_key(e.to_string()))?;
    let pair = CertifiedKey::from_der(chain, key, provider);
    pair.map_err(|error| {
        format!(
            "TLS: the certificate {} and the key {} do not fit together: {error}",
            files.certificate.display(),
            files.key.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Tested = Result<(), Box<dyn std::error::Error>>;

    fn write(folder: &Path) -> Result<TlsFiles, Box<dyn std::error::Error>> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let files = TlsFiles {
            certificate: folder.join("cert.pem"),
            key: folder.join("key.pem"),
        };
        fs::write(&files.certificate, made.cert.pem())?;
        fs::write(&files.key, made.signing_key.serialize_pem())?;
        Ok(files)
    }

    fn shown(tls: &Tls) -> Vec<u8> {
        let current = tls.current.0.read();
        let current = current.unwrap_or_else(PoisonError::into_inner);
        let first = current.cert.first();
        first.map(|der| der.to_vec()).unwrap_or_default()
    }

    /// Waits, in paused time, until another certificate is shown.
    async fn until_other(tls: &Tls, than: &[u8]) -> bool {
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if shown(tls) != than {
                return true;
            }
        }
        false
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_certificate_is_shown_and_a_broken_one_is_not() -> Tested {
        let dir = tempfile::tempdir()?;
        let files = write(dir.path())?;
        let tls = Arc::new(Tls::read(files.clone())?);
        let stop = CancellationToken::new();
        let following = tokio::spawn(tls.clone().follow(stop.clone()));
        let first = shown(&tls);
        tokio::time::sleep(Duration::from_secs(30)).await;
        fs::write(&files.certificate, "broken")?;
        assert!(!until_other(&tls, &first).await, "the one before stays");
        write(dir.path())?;
        // Another length tells the change from the file before, also within one tick of its clock.
        let text = fs::read_to_string(&files.certificate)?;
        fs::write(&files.certificate, text + "\n")?;
        assert!(until_other(&tls, &first).await, "the new one is shown");
        stop.cancel();
        following.await?;
        Ok(())
    }
}
