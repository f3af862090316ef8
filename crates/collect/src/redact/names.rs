//! The one list of what is sensitive, as data.
//!
//! Keys are compared folded: in lower case, without `-`, `_` and `.`, in the singular. What the
//! list finds and what it must leave alone is measured on `tests/data/redact/names.csv`.

/// A key that ends with one of these names a secret, whatever its value is. The first ten have
/// always been there.
pub(super) const SUFFIXES: &[&str] = &[
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "privatekey",
    "credential",
    "auth",
    "clientsecret",
    "connectionstring",
    "passphrase",
    "passcode",
    "passwort",
    "dbpass",
    "userpass",
    "rootpass",
    "pgpass",
    "secretkey",
    "secretkeybase",
    "accesskey",
    "signingkey",
    "signaturekey",
    "encryptionkey",
    "decryptionkey",
    "storagekey",
    "accountkey",
    "masterkey",
    "sharedkey",
    "sessionkey",
    "hmackey",
    "aeskey",
    "rsakey",
    "sshkey",
    "deploykey",
    "adminkey",
    "licensekey",
    "servicekey",
    "webhookkey",
    "tlskey",
    "sslkey",
    "serverkey",
    "clientkey",
    "cakey",
    "jwt",
    "jwk",
    "bearer",
    "idrsa",
    "iddsa",
    "idecdsa",
    "ided25519",
    "dockerconfigjson",
    "dockercfg",
    "dockerconfig",
    "gitcredential",
    "netrc",
    "npmrc",
    "pypirc",
    "htpasswd",
    "keytab",
    "keystore",
    "pkcs12",
    "mnemonic",
    "erlangcookie",
    "sessioncookie",
];

/// A key that ends with one of these names a secret if its value is text: as the name of a map it
/// is the head of a section, of which every part is looked at.
pub(super) const TEXT_SUFFIXES: &[&str] = &[
    "authorization",
    "kubeconfig",
    "dsn",
    "databaseurl",
    "databaseuri",
    "dburl",
    "dburi",
    "jdbcurl",
    "postgresurl",
    "postgresqlurl",
    "mysqlurl",
    "mongourl",
    "mongouri",
    "mongodburl",
    "mongodburi",
    "redisurl",
    "redisuri",
    "amqpurl",
    "rabbitmqurl",
    "brokerurl",
    "webhookurl",
    "connstr",
    "connectionurl",
    "connectionuri",
    "cookie",
];

/// A key whose last word is one of these names a secret. As the end of a longer word they mean
/// something else: `bypass`, `compass`, `expat`.
pub(super) const LAST_WORDS: &[&str] = &["pass", "pwd", "pat", "pw", "psk", "creds", "cred"];

/// Words at the end that say how a secret is written or which one it is, not what it is:
/// `PASSWORD_BASE64`, `client-key-data`, `token.txt`.
pub(super) const QUALIFIERS: &[&str] = &[
    "value", "data", "base64", "b64", "encoded", "encrypted", "raw", "plain", "plaintext", "text",
    "hash", "txt", "json", "yaml", "yml", "pem", "old", "new", "current", "previous", "primary",
    "secondary", "default",
];

/// Keys that end like secrets and are none.
pub(super) const FALSE_FRIENDS: &[&str] = &[
    "pass",
    "pagetoken",
    "nextpagetoken",
    "nexttoken",
    "continuetoken",
    "continuationtoken",
    "canceltoken",
    "cancellationtoken",
    "maxtoken",
    "numtoken",
    "noauth",
    "oauth2",
    "acceptcookie",
    "consentcookie",
];
