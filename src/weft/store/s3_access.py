"""How an object store is reached, in the settings of each client."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class S3Access:
    """How an object store is reached. Without keys, each client finds them as it does for AWS.

    ``endpoint`` is the URL of the server, or None for AWS itself.
    """

    endpoint: str | None = None
    region: str = "us-east-1"
    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)

    @property
    def delta_options(self) -> dict[str, str]:
        """The storage options for delta-rs. A commit is a PUT that fails if the object exists."""
        options = {"aws_conditional_put": "etag", "aws_region": self.region}
        if self.endpoint is not None:
            options |= {
                "aws_endpoint_url": self.endpoint,
                "aws_allow_http": str(self.endpoint.startswith("http:")).lower(),
            }
        if self.key is not None and self.secret is not None:
            options |= {"aws_access_key_id": self.key, "aws_secret_access_key": self.secret}
        return options if self.token is None else {**options, "aws_session_token": self.token}

    def spark_settings(self, bucket: str) -> dict[str, str]:
        """Return the settings of Spark's S3A client for a bucket, for ``spark.conf.set``.

        They include the secret. A session receives them over its own connection, so no argument, file or variable has
        them, and homes of one JVM may have different keys.
        """
        settings = {"endpoint.region": self.region, "attempts.maximum": "3", "connection.establish.timeout": "5s"}
        if self.endpoint is not None:
            secure = str(not self.endpoint.startswith("http:")).lower()
            settings |= {"endpoint": self.endpoint, "path.style.access": "true", "connection.ssl.enabled": secure}
        if self.key is not None and self.secret is not None:
            provider = "SimpleAWSCredentialsProvider"
            settings |= {"access.key": self.key, "secret.key": self.secret}
            if self.token is not None:
                provider = "TemporaryAWSCredentialsProvider"
                settings |= {"session.token": self.token}
            settings |= {"aws.credentials.provider": f"org.apache.hadoop.fs.s3a.{provider}"}
        return {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in settings.items()}
