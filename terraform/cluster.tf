# A long-running EMR cluster, for users who already pay for one. EMR Serverless does not need this file.

resource "aws_iam_role" "cluster_service" {
  count = var.cluster == null ? 0 : 1

  name                 = local.role_names.emr_service
  path                 = var.roles.path
  permissions_boundary = var.roles.permissions_boundary_arn
  description          = "Permissions of EMR to run the cluster of ${var.name}"
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "elasticmapreduce.${local.dns}" }
      Action    = "sts:AssumeRole"
      Condition = {
        StringEquals = { "aws:SourceAccount" = local.account }
        ArnLike      = { "aws:SourceArn" = "arn:${local.partition}:elasticmapreduce:${local.region}:${local.account}:*" }
      }
    }]
  })
}

resource "aws_iam_role_policy_attachment" "cluster_service" {
  count = var.cluster == null ? 0 : 1

  role       = aws_iam_role.cluster_service[0].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/service-role/AmazonEMRServicePolicy_v2"
}

resource "aws_iam_role_policy" "cluster_service" {
  count = var.cluster == null ? 0 : 1

  name = "instances"
  role = aws_iam_role.cluster_service[0].id

  # AmazonEMRServicePolicy_v2 allows only EMR's default instance role, and not this module's key.
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Action    = "iam:PassRole"
        Resource  = aws_iam_role.cluster_instance[0].arn
        Condition = { StringEquals = { "iam:PassedToService" = "ec2.${local.dns}" } }
      },
      local.disk_key,
      local.disk_grant,
    ]
  })
}

resource "aws_iam_role" "cluster_instance" {
  count = var.cluster == null ? 0 : 1

  name                 = local.role_names.emr_instance
  path                 = var.roles.path
  permissions_boundary = var.roles.permissions_boundary_arn
  description          = "Permissions of compactor jobs on the cluster of ${var.name}"
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ec2.${local.dns}" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_role_policy" "cluster_instance" {
  for_each = { for key, policy in local.job_policies : key => policy if var.cluster != null }

  name   = each.key
  role   = aws_iam_role.cluster_instance[0].id
  policy = each.value
}

resource "aws_iam_role_policy" "cluster_disks" {
  count = var.cluster == null ? 0 : 1

  name = "disks"
  role = aws_iam_role.cluster_instance[0].id

  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [local.disk_key, local.disk_grant]
  })
}

resource "aws_iam_instance_profile" "cluster" {
  count = var.cluster == null ? 0 : 1

  name = local.role_names.emr_instance
  path = var.roles.path
  role = aws_iam_role.cluster_instance[0].name
  tags = var.tags
}

resource "aws_emr_security_configuration" "cluster" {
  count = var.cluster == null ? 0 : 1

  name = var.name

  configuration = jsonencode({
    EncryptionConfiguration = {
      EnableInTransitEncryption = false # needs the user's own certificates
      EnableAtRestEncryption    = true
      AtRestEncryptionConfiguration = {
        S3EncryptionConfiguration = {
          EncryptionMode = "SSE-KMS"
          AwsKmsKey      = local.kms_key_arn
        }
        LocalDiskEncryptionConfiguration = {
          EncryptionKeyProviderType = "AwsKms"
          AwsKmsKey                 = local.kms_key_arn
          EnableEbsEncryption       = true
        }
      }
    }
    # Instance metadata by token only.
    InstanceMetadataServiceConfiguration = {
      MinimumInstanceMetadataServiceVersion = 2
      HttpPutResponseHopLimit               = 1
    }
  })
}

resource "aws_emr_cluster" "this" {
  count = var.cluster == null ? 0 : 1

  name                              = var.name
  release_label                     = var.cluster.release_label
  applications                      = ["Hadoop", "Hive", "Spark"]
  service_role                      = aws_iam_role.cluster_service[0].arn
  security_configuration            = aws_emr_security_configuration.cluster[0].name
  log_uri                           = "s3://${local.logs_bucket}/jobs/cluster/"
  step_concurrency_level            = var.cluster.step_concurrency
  keep_job_flow_alive_when_no_steps = true
  termination_protection            = var.cluster.termination_protection
  unhealthy_node_replacement        = true
  tags                              = merge(var.tags, { "for-use-with-amazon-emr-managed-policies" = "true" })

  configurations_json = jsonencode([
    for classification in ["hive-site", "spark-hive-site"] : {
      Classification = classification
      Properties     = { "hive.metastore.client.factory.class" = "com.amazonaws.glue.catalog.metastore.AWSGlueDataCatalogHiveClientFactory" }
    } if var.cluster.glue_metastore
  ])

  dynamic "auto_termination_policy" {
    for_each = var.cluster.idle_timeout_minutes[*]

    content {
      idle_timeout = auto_termination_policy.value * 60
    }
  }

  ec2_attributes {
    instance_profile                  = aws_iam_instance_profile.cluster[0].arn
    subnet_id                         = var.cluster.subnet_id
    emr_managed_master_security_group = var.cluster.primary_security_group_id
    emr_managed_slave_security_group  = var.cluster.core_security_group_id
    service_access_security_group     = var.cluster.service_security_group_id
  }

  master_instance_group {
    name           = "primary"
    instance_type  = var.cluster.primary_instance_type
    instance_count = 1
  }

  core_instance_group {
    name           = "core"
    instance_type  = var.cluster.core_instance_type
    instance_count = var.cluster.core_instance_count

    ebs_config {
      size                 = var.cluster.core_volume_gib
      type                 = "gp3"
      volumes_per_instance = 1
    }
  }

  # Without these permissions EMR starts instances and then terminates them.
  depends_on = [
    aws_iam_role_policy_attachment.cluster_service,
    aws_iam_role_policy.cluster_service,
    aws_iam_role_policy.cluster_instance,
    aws_iam_role_policy.cluster_disks,
  ]
}

locals {
  # Permissions that EMR and the instances need to encrypt local disks with this module's key.
  disk_key = {
    Effect   = "Allow"
    Action   = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"]
    Resource = local.kms_key_arn
  }
  disk_grant = {
    Effect    = "Allow"
    Action    = "kms:CreateGrant"
    Resource  = local.kms_key_arn
    Condition = { Bool = { "kms:GrantIsForAWSResource" = "true" } }
  }
}
