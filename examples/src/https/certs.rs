//! Certificates: read from PEM files with errors that say what to do, or made on the spot.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error as Pem, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// A certificate, with the chain to its root, and its key.
#[derive(Debug)]
pub struct Identity {
    /// The server's own certificate comes first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Of the first certificate.
    pub key: PrivateKeyDer<'static>,
}

/// The provider of cryptography: `ring`, which builds with a C compiler alone.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

impl Identity {
    /// Makes a certificate that nobody vouches for: clients know it by its [`fingerprint`].
    ///
    /// # Errors
    /// A name is none.
    pub fn self_signed(names: &[String]) -> Result<Identity, String> {
        let made = rcgen::generate_simple_self_signed(names)
            .map_err(|fault| format!("no certificate for {names:?}: {fault}"))?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Ok(Identity { chain: vec![made.cert.der().clone()], key: key.into() })
    }

    /// Reads PEM files.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub fn load(cert: &Path, key: &Path) -> Result<Identity, String> {
        let chain = certificates(cert)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|fault| match fault {
            Pem::NoItemsFound => format!(
                "{}: there is no private key in it; a PEM file with BEGIN PRIVATE KEY is needed",
                key.display()
            ),
            fault => format!("{}: {fault}", key.display()),
        })?;
        Ok(Identity { chain, key })
    }

    /// The server's configuration.
    ///
    /// # Errors
    /// The key does not belong to the certificate, or is of a kind that is not known.
    pub fn into_config(self) -> Result<Arc<ServerConfig>, String> {
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|fault| fault.to_string())?
            .with_no_client_auth()
            .with_single_cert(self.chain, self.key)
            .map_err(|fault| match fault {
                rustls::Error::InconsistentKeys(_) => {
                    "the key of --key is not the one of the certificate of --cert".into()
                }
                fault => format!("the certificate and its key: {fault}"),
            })?;
        Ok(Arc::new(config))
    }
}

/// All certificates of a PEM file.
///
/// # Errors
/// It cannot be read, is no PEM, or has none.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |fault: Pem| format!("{}: {fault}", file.display());
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).map_err(wrong)?.collect();
    match found.map_err(wrong)? {
        none if none.is_empty() => Err(format!(
            "{}: there is no certificate in it; a PEM file with BEGIN CERTIFICATE is needed",
            file.display()
        )),
        some => Ok(some),
    }
}

/// The SHA-256 of a certificate, in hex.
pub fn fingerprint(cert: &CertificateDer<'_>) -> String {
    let digest = ::ring::digest::digest(&::ring::digest::SHA256, cert);
    digest.as_ref().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
