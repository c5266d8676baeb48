//! The client: one request, `StreamOwned` once more.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bast::net::TcpStream;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme, StreamOwned,
};
use url::Url;

use super::certs;

/// Whom a client believes.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Those for whom a certificate of this PEM file vouches.
    Roots(PathBuf),
    /// The one with this fingerprint, whatever its name.
    Pin(String),
}

impl Trust {
    /// The client's configuration.
    ///
    /// # Errors
    /// The file is not what it should be.
    pub fn into_config(self) -> Result<Arc<ClientConfig>, String> {
        let provider = certs::provider();
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|fault| fault.to_string())?;
        let builder = match self {
            Trust::Roots(file) => {
                let mut roots = RootCertStore::empty();
                let (added, _) = roots.add_parsable_certificates(certs::certificates(&file)?);
                if added == 0 {
                    return Err(format!("{}: none of its certificates is valid", file.display()));
                }
                builder.with_root_certificates(roots)
            }
            Trust::Pin(pin) => {
                let verifier = Pinned { pin: pin.to_ascii_lowercase(), provider };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
        Ok(Arc::new(builder.with_no_client_auth()))
    }
}

/// Connects and shakes hands.
///
/// # Errors
/// No such host, no connection, or a server that is not believed. `TimedOut` after `limit`.
pub fn connect(
    host: &str,
    port: u16,
    config: &Arc<ClientConfig>,
    limit: Duration,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("{host} is no name")))?;
    let connecting = || {
        let mut sock = TcpStream::connect(format!("{host}:{port}"))?;
        sock.set_nodelay(true)?;
        let mut conn = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        conn.complete_io(&mut sock)?;
        Ok(StreamOwned { conn, sock })
    };
    bast::timeout(limit, connecting).unwrap_or_else(|_elapsed| {
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no handshake within {limit:?}")))
    })
}

/// Gets a page, head and all, into `output`.
///
/// # Errors
/// As [`connect`]; `UnexpectedEof` if the server hangs up without a close_notify: then somebody may have
/// cut the answer short.
pub fn get(
    url: &Url,
    config: &Arc<ClientConfig>,
    limit: Duration,
    output: &mut impl Write,
) -> io::Result<u64> {
    let (Some(host), "https") = (url.host_str(), url.scheme()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "https://… is needed"));
    };
    let mut tls = connect(host, url.port().unwrap_or(443), config, limit)?;
    tls.sock.set_read_timeout(Some(limit))?;
    tls.sock.set_write_timeout(Some(limit))?;
    let target = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let head = format!("GET {target} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    tls.write_all(head.as_bytes())?;
    tls.flush()?;
    io::copy(&mut tls, output)
}

/// Believes the certificate with one fingerprint. That the server has its key is verified as ever.
struct Pinned {
    pin: String,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if certs::fingerprint(end_entity) == self.pin {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pinned").field(&self.pin).finish()
    }
}
