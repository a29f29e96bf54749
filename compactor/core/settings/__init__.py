"""Settings that do not belong to one table: how S3 is reached, for boto3 (`s3`) and for Spark (`s3a`), and the configuration that a job on a cluster
receives (`job_config`).
"""
